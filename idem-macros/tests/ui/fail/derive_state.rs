use idem_core::FromRef;

#[derive(Clone)]
struct Mailer;

#[derive(FromRef)]
struct SameTypes {
    mailer: Mailer,
    deputy: Mailer,
}

#[derive(FromRef)]
struct NoNames(Mailer);

#[derive(FromRef)]
struct Generic<T> {
    part: T,
}

#[derive(FromRef)]
struct Misspelt {
    #[from_ref(leave_out)]
    text: String,
}

#[derive(FromRef)]
#[from_ref(skip)]
struct OnTheType {
    number: u64,
}

fn main() {}
