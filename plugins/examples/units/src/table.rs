//! The units. Factors are by definition, so that they are exact.
use crate::rational::Rational;

/// One unit: so many base units are `num`/`den` each, and its zero lies at `zero`.
pub(crate) struct Unit {
    pub(crate) kind: &'static str,
    /// As it is printed; read in any case.
    pub(crate) symbol: &'static str,
    /// In lower case, without a plural `s`.
    names: &'static [&'static str],
    num: i128,
    den: i128,
    /// In base units, as a fraction.
    zero: (i128, i128),
}

impl Unit {
    pub(crate) fn factor(&self) -> Option<Rational> {
        Rational::new(self.num, self.den)
    }
    pub(crate) fn zero(&self) -> Option<Rational> {
        Rational::new(self.zero.0, self.zero.1)
    }
}

const fn unit(kind: &'static str, symbol: &'static str, names: &'static [&'static str], num: i128, den: i128) -> Unit {
    Unit { kind, symbol, names, num, den, zero: (0, 1) }
}

const LENGTH: &str = "length";
const MASS: &str = "mass";
pub(crate) const TEMPERATURE: &str = "temperature";
const VOLUME: &str = "volume";
const AREA: &str = "area";
const SPEED: &str = "speed";
const TIME: &str = "time";
const ENERGY: &str = "energy";
const PRESSURE: &str = "pressure";
const DATA: &str = "data";

const THOUSAND: i128 = 1_000;
const MILLION: i128 = 1_000_000;
const BILLION: i128 = 1_000_000_000;

static UNITS: &[Unit] = &[
    unit(LENGTH, "m", &["metre", "meter"], 1, 1),
    unit(LENGTH, "km", &["kilometre", "kilometer"], THOUSAND, 1),
    unit(LENGTH, "cm", &["centimetre", "centimeter"], 1, 100),
    unit(LENGTH, "mm", &["millimetre", "millimeter"], 1, THOUSAND),
    unit(LENGTH, "µm", &["um", "μm", "micrometre", "micrometer", "micron"], 1, MILLION),
    unit(LENGTH, "nm", &["nanometre", "nanometer"], 1, BILLION),
    unit(LENGTH, "in", &["inch", "inches", "\""], 254, 10_000),
    unit(LENGTH, "ft", &["foot", "feet", "'"], 3_048, 10_000),
    unit(LENGTH, "yd", &["yard"], 9_144, 10_000),
    unit(LENGTH, "mi", &["mile"], 1_609_344, THOUSAND),
    unit(LENGTH, "nmi", &["nautical mile"], 1_852, 1),
    unit(LENGTH, "au", &["astronomical unit"], 149_597_870_700, 1),
    unit(LENGTH, "ly", &["light year", "light-year", "lightyear"], 9_460_730_472_580_800, 1),
    unit(MASS, "kg", &["kilogram", "kilo"], 1, 1),
    unit(MASS, "g", &["gram", "gramme"], 1, THOUSAND),
    unit(MASS, "mg", &["milligram"], 1, MILLION),
    unit(MASS, "t", &["tonne", "metric ton"], THOUSAND, 1),
    unit(MASS, "lb", &["pound"], 45_359_237, 100 * MILLION),
    unit(MASS, "oz", &["ounce"], 45_359_237, 1_600 * MILLION),
    unit(MASS, "st", &["stone"], 635_029_318, 100 * MILLION),
    unit(TEMPERATURE, "K", &["kelvin"], 1, 1),
    Unit {
        kind: TEMPERATURE,
        symbol: "°C",
        names: &["c", "celsius", "degree celsius", "degrees celsius"],
        num: 1,
        den: 1,
        zero: (27_315, 100),
    },
    Unit {
        kind: TEMPERATURE,
        symbol: "°F",
        names: &["f", "fahrenheit", "degree fahrenheit", "degrees fahrenheit"],
        num: 5,
        den: 9,
        zero: (45_967, 180),
    },
    unit(VOLUME, "l", &["litre", "liter"], 1, 1),
    unit(VOLUME, "dl", &["decilitre", "deciliter"], 1, 10),
    unit(VOLUME, "cl", &["centilitre", "centiliter"], 1, 100),
    unit(VOLUME, "ml", &["millilitre", "milliliter", "cm3", "cm³", "cc"], 1, THOUSAND),
    unit(VOLUME, "m³", &["m3", "cubic metre", "cubic meter"], THOUSAND, 1),
    unit(VOLUME, "gal", &["gallon", "us gallon"], 3_785_411_784, BILLION),
    unit(VOLUME, "qt", &["quart"], 3_785_411_784, 4 * BILLION),
    unit(VOLUME, "pt", &["pint"], 3_785_411_784, 8 * BILLION),
    unit(VOLUME, "cup", &["us cup"], 3_785_411_784, 16 * BILLION),
    unit(VOLUME, "floz", &["fl oz", "fluid ounce"], 3_785_411_784, 128 * BILLION),
    unit(VOLUME, "tbsp", &["tablespoon"], 3_785_411_784, 256 * BILLION),
    unit(VOLUME, "tsp", &["teaspoon"], 3_785_411_784, 768 * BILLION),
    unit(VOLUME, "impgal", &["imperial gallon"], 454_609, 100_000),
    unit(VOLUME, "imppt", &["imperial pint"], 454_609, 800_000),
    unit(AREA, "m²", &["m2", "square metre", "square meter"], 1, 1),
    unit(AREA, "km²", &["km2", "square kilometre", "square kilometer"], MILLION, 1),
    unit(AREA, "cm²", &["cm2", "square centimetre", "square centimeter"], 1, 10_000),
    unit(AREA, "ha", &["hectare"], 10_000, 1),
    unit(AREA, "ac", &["acre"], 40_468_564_224, 10 * MILLION),
    unit(AREA, "ft²", &["ft2", "sq ft", "square foot", "square feet"], 9_290_304, 100 * MILLION),
    unit(AREA, "mi²", &["mi2", "sq mi", "square mile"], 2_589_988_110_336, MILLION),
    unit(SPEED, "m/s", &["metre per second", "metres per second", "meter per second", "meters per second"], 1, 1),
    unit(SPEED, "km/h", &["kph", "kmh", "kilometre per hour", "kilometres per hour", "kilometers per hour"], 5, 18),
    unit(SPEED, "mph", &["mile per hour", "miles per hour", "mi/h"], 44_704, 100_000),
    unit(SPEED, "kn", &["knot", "kt"], 1_852, 3_600),
    unit(SPEED, "ft/s", &["fps", "foot per second", "feet per second"], 3_048, 10_000),
    unit(TIME, "s", &["sec", "second"], 1, 1),
    unit(TIME, "ms", &["millisecond"], 1, THOUSAND),
    unit(TIME, "min", &["minute"], 60, 1),
    unit(TIME, "h", &["hr", "hour"], 3_600, 1),
    unit(TIME, "d", &["day"], 86_400, 1),
    unit(TIME, "week", &["wk"], 604_800, 1),
    unit(ENERGY, "J", &["joule"], 1, 1),
    unit(ENERGY, "kJ", &["kilojoule"], THOUSAND, 1),
    unit(ENERGY, "Wh", &["watt hour", "watt-hour"], 3_600, 1),
    unit(ENERGY, "kWh", &["kilowatt hour", "kilowatt-hour"], 3_600 * THOUSAND, 1),
    unit(ENERGY, "cal", &["calorie"], 4_184, THOUSAND),
    unit(ENERGY, "kcal", &["kilocalorie"], 4_184, 1),
    unit(PRESSURE, "Pa", &["pascal"], 1, 1),
    unit(PRESSURE, "hPa", &["hectopascal", "mbar", "millibar"], 100, 1),
    unit(PRESSURE, "kPa", &["kilopascal"], THOUSAND, 1),
    unit(PRESSURE, "bar", &[], 100_000, 1),
    unit(PRESSURE, "atm", &["atmosphere"], 101_325, 1),
    // A pound's weight on a square inch.
    unit(PRESSURE, "psi", &["pound per square inch", "pounds per square inch"], 44_482_216_152_605, 6_451_600_000),
    unit(DATA, "bit", &[], 1, 1),
    unit(DATA, "kbit", &["kilobit"], THOUSAND, 1),
    unit(DATA, "Mbit", &["megabit"], MILLION, 1),
    unit(DATA, "Gbit", &["gigabit"], BILLION, 1),
    unit(DATA, "B", &["byte"], 8, 1),
    unit(DATA, "kB", &["kilobyte"], 8 * THOUSAND, 1),
    unit(DATA, "MB", &["megabyte"], 8 * MILLION, 1),
    unit(DATA, "GB", &["gigabyte"], 8 * BILLION, 1),
    unit(DATA, "TB", &["terabyte"], 8 * THOUSAND * BILLION, 1),
    unit(DATA, "KiB", &["kibibyte"], 8 << 10, 1),
    unit(DATA, "MiB", &["mebibyte"], 8 << 20, 1),
    unit(DATA, "GiB", &["gibibyte"], 8 << 30, 1),
    unit(DATA, "TiB", &["tebibyte"], 8 << 40, 1),
];

/// The kinds, in order.
pub(crate) fn kinds() -> Vec<&'static str> {
    let mut kinds: Vec<_> = UNITS.iter().map(|unit| unit.kind).collect();
    kinds.dedup();
    kinds
}

/// The units of a kind.
pub(crate) fn of_kind(kind: &str) -> impl Iterator<Item = &'static Unit> {
    UNITS.iter().filter(move |unit| unit.kind == kind)
}

/// The unit that a text means: by its symbol as it is written, else by name or by symbol in any case.
pub(crate) fn find(text: &str) -> Option<&'static Unit> {
    if let Some(unit) = UNITS.iter().find(|unit| unit.symbol == text) {
        return Some(unit);
    }
    let lower = text.to_lowercase();
    let singular = lower.strip_suffix('s').unwrap_or(&lower);
    UNITS.iter().find(|unit| {
        let symbol = unit.symbol.to_lowercase();
        unit.names.contains(&lower.as_str())
            || unit.names.contains(&singular)
            || symbol == lower
            || (symbol.len() > 1 && symbol == singular)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_symbol_and_name_means_one_unit() {
        let mut seen = HashSet::new();
        for unit in UNITS {
            assert!(seen.insert(unit.symbol.to_lowercase()), "{}", unit.symbol);
            assert!(unit.factor().is_some() && unit.zero().is_some(), "{}", unit.symbol);
            for name in unit.names {
                assert_eq!(*name, name.to_lowercase());
                assert!(seen.insert((*name).to_owned()), "{name}");
                assert_eq!(find(name).unwrap().symbol, unit.symbol, "{name}");
            }
        }
    }

    #[test]
    fn units_of_a_kind_stand_together() {
        let kinds = kinds();
        assert_eq!(kinds.len(), kinds.iter().collect::<HashSet<_>>().len());
        assert!(kinds.len() >= 8);
    }
}
