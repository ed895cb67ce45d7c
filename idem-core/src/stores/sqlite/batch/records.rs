//! The records that a batch concerns: read with one statement, changed in memory, written with few.

use std::{collections::HashMap, mem};

use sqlx::{
    Row as _,
    sqlite::{SqliteQueryResult, SqliteRow},
};

use super::{Batch, CallError, corrupt};
use crate::{
    message::Key,
    store::{
        StoreError,
        rules::record::{Record, Step},
    },
    stores::rows,
    stores::sqlite::{
        fault::{self, Fault},
        row,
        sql::Save,
    },
};

/// What is known of records, and not yet written.
#[derive(Default)]
pub(super) struct Records(HashMap<Key, Known>);

struct Known {
    record: Option<Record>,
    is_changed: bool,
}

/// A record that the database has not taken.
pub(super) struct Refused {
    pub(super) key: Key,
    fault: Fault,
}

impl Refused {
    /// What whoever has counted on it is told.
    pub(super) fn error(&self) -> StoreError {
        corrupt(&self.key, self.fault.clone())
    }
}

impl Batch<'_> {
    /// Reads records that will be asked for. One that cannot be read is left to whoever asks for it.
    pub(super) async fn read_ahead(
        &mut self,
        keys: impl Iterator<Item = &Key>,
    ) -> Result<(), Fault> {
        let unknown = |key: &Key| {
            let known = Known {
                record: None,
                is_changed: false,
            };
            (key.clone(), known)
        };
        let mut known: HashMap<Key, Known> = keys.map(unknown).collect();
        if known.is_empty() {
            return Ok(());
        }
        for row in self.rows(known.keys()).await? {
            let key: &str = row.try_get("key")?;
            let Ok(record) = rows::record_in_full(&row) else {
                known.remove(key);
                continue;
            };
            if let Some(known) = known.get_mut(key) {
                known.record = Some(record);
            }
        }
        self.records = Records(known);
        Ok(())
    }

    /// Reads one, wherever it is known.
    pub(in crate::stores::sqlite) async fn load(
        &mut self,
        key: &Key,
    ) -> Result<Option<Record>, CallError> {
        if let Some(known) = self.records.0.get(key) {
            return Ok(known.record.clone());
        }
        let rows = self.rows([key]).await?;
        let record = rows.first().map(rows::record_in_full).transpose();
        record.map_err(|source| CallError::corrupt(key, source))
    }

    /// Writes what a step comes to: at once, unless the record was read ahead.
    pub(in crate::stores::sqlite) async fn save<A>(
        &mut self,
        key: &Key,
        step: Step<A>,
    ) -> Result<A, CallError> {
        let Some(record) = step.write else {
            return Ok(step.answer);
        };
        if let Some(known) = self.records.0.get_mut(key) {
            *known = Known {
                record: Some(record),
                is_changed: true,
            };
            return Ok(step.answer);
        }
        match self.write(&[(key.clone(), record)]).await {
            Ok(_) => Ok(step.answer),
            Err(error) if fault::is_of_one_row(&error) => Err(CallError::corrupt(key, error)),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes what was not yet written, and knows nothing any more.
    pub(super) async fn write_behind(&mut self) -> Result<Vec<Refused>, Fault> {
        let known = mem::take(&mut self.records).0.into_iter();
        let mut changed: Vec<(Key, Record)> = known
            .filter(|(_, known)| known.is_changed)
            .filter_map(|(key, known)| Some((key, known.record?)))
            .collect();
        changed.sort_unstable_by(|(one, _), (other, _)| one.as_str().cmp(other.as_str()));
        let mut refused = Vec::new();
        let mut rest = changed.as_slice();
        while !rest.is_empty() {
            let (some, others) = rest.split_at(Save::fitting(rest.len()));
            rest = others;
            match self.write(some).await {
                Ok(_) => {}
                // Perhaps only one of them is refused.
                Err(error) if fault::is_of_one_row(&error) => {
                    refused.extend(self.write_each(some).await?);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(refused)
    }

    async fn write_each(&mut self, records: &[(Key, Record)]) -> Result<Vec<Refused>, Fault> {
        let mut refused = Vec::new();
        for one in records {
            match self.write(std::slice::from_ref(one)).await {
                Ok(_) => {}
                Err(error) if fault::is_of_one_row(&error) => refused.push(Refused {
                    key: one.0.clone(),
                    fault: error.into(),
                }),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(refused)
    }

    /// Writes the records with one statement: all or none.
    async fn write(&mut self, records: &[(Key, Record)]) -> Result<SqliteQueryResult, sqlx::Error> {
        let mut statement = sqlx::query(self.sql.save.of(records.len()));
        for (key, record) in records {
            statement = row::bind(statement, key, record);
        }
        let written = statement.execute(&mut *self.connection).await?;
        self.has_written |= written.rows_affected() > 0;
        Ok(written)
    }

    async fn rows<'k>(
        &mut self,
        keys: impl IntoIterator<Item = &'k Key>,
    ) -> Result<Vec<SqliteRow>, sqlx::Error> {
        let keys: Vec<&str> = keys.into_iter().map(Key::as_str).collect();
        let list = serde_json::to_string(&keys).expect("texts can be written as JSON");
        sqlx::query(self.sql.load.clone())
            .bind(list)
            .fetch_all(&mut *self.connection)
            .await
    }
}
