//! `timestamptz` as microseconds, which is what the server sends.

use sqlx::{
    Decode, Postgres, Type,
    error::BoxDynError,
    postgres::{PgTypeInfo, PgValueRef, types::Oid},
};

/// Microseconds of the server's clock since 2000.
pub(super) struct Instant(pub(super) i64);

impl Type<Postgres> for Instant {
    fn type_info() -> PgTypeInfo {
        const TIMESTAMPTZ: Oid = Oid(1184);
        PgTypeInfo::with_oid(TIMESTAMPTZ)
    }
}

impl Decode<'_, Postgres> for Instant {
    fn decode(value: PgValueRef<'_>) -> Result<Self, BoxDynError> {
        // Prepared statements answer in the binary format, and all of ours are.
        let bytes = value.as_bytes()?.try_into()?;
        Ok(Self(i64::from_be_bytes(bytes)))
    }
}
