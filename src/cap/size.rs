//! Sizes in bytes: read from people, written for people and for files.
//!
//! Reading is exact, never through floating point. Whether a size makes sense as a limit is for [`super::limits`] to say.

use std::fmt;

const KB: u64 = 1 << 10;
const MB: u64 = 1 << 20;
const GB: u64 = 1 << 30;

/// The spellings of units, in lower case.
const UNITS: [(&str, u64); 11] = [
    ("", 1),
    ("b", 1),
    ("k", KB),
    ("kb", KB),
    ("kib", KB),
    ("m", MB),
    ("mb", MB),
    ("mib", MB),
    ("g", GB),
    ("gb", GB),
    ("gib", GB),
];

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(pub u64);

/// A text that is no size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "not a size: {input:?}; accepted are a whole number of bytes, or a number with B, K, KB, KiB, M, MB, MiB, G, GB or GiB"
)]
pub struct SizeError {
    /// What was given.
    pub input: String,
}

impl std::str::FromStr for ByteSize {
    type Err = SizeError;
    /// Reads `1500`, `256KB`, `1.5 mb`: a fraction only with a unit, with digits on both sides of its point, rounded down.
    fn from_str(s: &str) -> Result<Self, SizeError> {
        parse(s).map(ByteSize).ok_or_else(|| SizeError { input: s.to_owned() })
    }
}

fn parse(s: &str) -> Option<u64> {
    let blank = [' ', '\t'];
    let s = s.trim_matches(blank);
    let (whole, rest) = s.split_at(digits(s));
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(rest) => {
            let (fraction, rest) = rest.split_at(digits(rest));
            if fraction.is_empty() {
                return None;
            }
            (fraction, rest)
        }
        None => ("", rest),
    };
    let unit = rest.trim_start_matches(blank);
    if whole.is_empty() || (unit.is_empty() && !fraction.is_empty()) {
        return None;
    }
    let (_, factor) = UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit))?;
    let whole = whole.bytes().try_fold(0_u64, |n, digit| n.checked_mul(10)?.checked_add(u64::from(digit - b'0')))?;
    whole.checked_mul(*factor)?.checked_add(times_fraction(fraction, *factor))
}

/// How many ASCII digits the text starts with.
fn digits(s: &str) -> usize {
    s.bytes().take_while(u8::is_ascii_digit).count()
}

/// `0.fraction × factor`, rounded down: multiplied as by hand, last digit first. What is carried out of the first digit
/// is the whole part, exact for any number of digits, and always less than the factor.
fn times_fraction(fraction: &str, factor: u64) -> u64 {
    fraction.bytes().rev().fold(0, |carry, digit| (u64::from(digit - b'0') * factor + carry) / 10)
}

impl ByteSize {
    /// The text of configuration and JSON: the largest unit that divides evenly.
    #[must_use]
    pub fn canonical(self) -> String {
        let n = self.0;
        [(GB, "GB"), (MB, "MB"), (KB, "KB")]
            .into_iter()
            .find(|(unit, _)| n != 0 && n.is_multiple_of(*unit))
            .map_or_else(|| n.to_string(), |(unit, name)| format!("{}{name}", n / unit))
    }
    /// The text of markers and reports.
    #[must_use]
    pub fn human(self) -> String {
        Human::of(self.0).to_string()
    }
}

/// A size as people read it. Two of them are equal where their texts are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Human {
    whole: u64,
    tenth: Option<u64>,
    unit: &'static str,
}

impl Human {
    /// In the unit that suits the size, rounded half up. A value that would round up to 1024 of its unit moves to the next.
    pub(super) fn of(n: u64) -> Self {
        if n < KB {
            return Human::bytes(n);
        }
        let kilos = n.saturating_add(KB / 2) / KB;
        if kilos < 1024 {
            return Human { whole: kilos, tenth: None, unit: "KB" };
        }
        let megas = tenths(n, MB);
        if megas < 10 * 1024 {
            return Human { whole: megas / 10, tenth: Some(megas % 10), unit: "MB" };
        }
        let gigas = tenths(n, GB);
        Human { whole: gigas / 10, tenth: Some(gigas % 10), unit: "GB" }
    }
    /// In bytes, whatever its size.
    pub(super) fn bytes(n: u64) -> Self {
        Human { whole: n, tenth: None, unit: "B" }
    }
    /// The length of its text in bytes.
    pub(super) fn len(self) -> u64 {
        let digits = self.whole.checked_ilog10().map_or(1, |log| u64::from(log) + 1);
        let point = if self.tenth.is_some() { 2 } else { 0 };
        digits + point + 1 + self.unit.len() as u64
    }
}

impl fmt::Display for Human {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.tenth {
            Some(tenth) => write!(f, "{}.{tenth} {}", self.whole, self.unit),
            None => write!(f, "{} {}", self.whole, self.unit),
        }
    }
}

/// Tenths of a unit, rounded half up. The unit is at least a megabyte, so they always fit; the product of a large size does not.
fn tenths(n: u64, unit: u64) -> u64 {
    let (unit, half) = (u128::from(unit), u128::from(unit / 2));
    u64::try_from((u128::from(n) * 10 + half) / unit).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fraction_of_any_length_is_exact() {
        let nines = "9".repeat(10_000);
        assert_eq!(format!("0.{nines}GB").parse(), Ok(ByteSize(GB - 1)));
        assert_eq!(format!("17179869183.{nines}GB").parse(), Ok(ByteSize(u64::MAX)));
        assert_eq!("1.5MB".parse(), Ok(ByteSize(1_572_864)));
        let third = format!("0.{}KB", "3".repeat(40));
        assert_eq!(third.parse(), Ok(ByteSize(341)));
    }

    #[test]
    fn the_error_quotes_the_input_and_lists_what_is_accepted() {
        let error = "1TB".parse::<ByteSize>().unwrap_err().to_string();
        assert!(error.contains("\"1TB\"") && error.contains("KiB"), "{error}");
    }

    #[test]
    fn the_length_is_that_of_the_text() {
        for power in 0..64 {
            for n in
                [(1_u64 << power) - 1, 1 << power, (1 << power) + 1, u64::MAX - (1 << power), 10_u64.pow(power / 4)]
            {
                for human in [Human::of(n), Human::bytes(n)] {
                    assert_eq!(human.len(), human.to_string().len() as u64, "{human}");
                }
            }
        }
    }
}
