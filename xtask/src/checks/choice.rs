//! One of several values, or all of them, on a command line.

use clap::ValueEnum;

/// The chosen values.
#[derive(Clone, Debug)]
pub(crate) struct Choice<T>(Vec<T>);

impl<T: Copy> Choice<T> {
    pub(crate) fn values(&self) -> Vec<T> {
        self.0.clone()
    }
}

/// Reads the name of a value, or `all`.
pub(crate) fn one_or_all<T: ValueEnum>(text: &str) -> Result<Choice<T>, String> {
    if text == "all" {
        return Ok(Choice(T::value_variants().to_vec()));
    }
    T::from_str(text, false)
        .map(|value| Choice(vec![value]))
        .map_err(|_| format!("it is one of {}, all", names::<T>().join(", ")))
}

/// The name of a value on a command line.
pub(crate) fn name<T: ValueEnum>(value: &T) -> String {
    let value = value.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}

fn names<T: ValueEnum>() -> Vec<String> {
    T::value_variants().iter().map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::services::rabbitmq::Generation;

    #[test]
    fn a_value_is_chosen_by_its_name_and_every_value_by_all() {
        let chosen = |text| one_or_all::<Generation>(text).map(|choice| choice.values());
        assert_eq!(chosen("4.0"), Ok(vec![Generation::V4_0]));
        assert_eq!(chosen("all"), Ok(Generation::ALL.to_vec()));
        let refusal = chosen("4.1").expect_err("it is not among them");
        assert_eq!(refusal, "it is one of 3.10, 4.0, 4.3, all");
        assert_eq!(name(&Generation::V3_10), "3.10");
    }
}
