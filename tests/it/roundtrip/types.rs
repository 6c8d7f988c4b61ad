//! Types that columns can have, each with values written out by hand and a way to make more.

use fastrand::Rng;
use std::sync::Arc;

type Generate = Arc<dyn Fn(&mut Rng) -> String>;
type Ascending = Arc<dyn Fn(&mut Rng, usize) -> Vec<String>>;

/// A type, and values of it as the texts that its input function takes.
#[derive(Clone)]
pub struct Type {
    /// As `CREATE TABLE` has it.
    pub name: String,
    /// The values at the edges.
    pub edges: Vec<String>,
    pub generate: Generate,
    /// What stands between two elements of an array of it.
    pub delimiter: char,
    pub is_array: bool,
}

impl Type {
    pub fn new(name: &str, edges: &[&str], generate: impl Fn(&mut Rng) -> String + 'static) -> Self {
        Type {
            name: name.to_owned(),
            edges: edges.iter().map(|edge| (*edge).to_owned()).collect(),
            generate: Arc::new(generate),
            delimiter: ',',
            is_array: false,
        }
    }

    pub fn with(mut self, edge: impl Into<String>) -> Self {
        self.edges.push(edge.into());
        self
    }

    /// Any value: an edge of moderate length or a generated one.
    pub fn any(&self, rng: &mut Rng) -> String {
        let edge = (!self.edges.is_empty() && rng.u32(..4) == 0).then(|| &self.edges[rng.usize(..self.edges.len())]);
        match edge {
            Some(edge) if edge.len() < 2_000 => edge.clone(),
            _ => (self.generate)(rng),
        }
    }

    pub fn any_or_null(&self, rng: &mut Rng) -> Option<String> {
        (rng.u32(..4) != 0).then(|| self.any(rng))
    }

    /// The type of the same values under the name of a domain over it.
    pub fn under(&self, name: &str) -> Self {
        Type {
            name: name.to_owned(),
            ..self.clone()
        }
    }

    /// Arrays of it: empty, of NULL alone, of all edges, of anything.
    pub fn array(&self) -> Self {
        let (element, delimiter) = (self.clone(), self.delimiter);
        let edges: Vec<Option<String>> = self
            .edges
            .iter()
            .filter(|e| e.len() < 2_000)
            .cloned()
            .map(Some)
            .collect();
        let arrays = Type::new(&format!("{}[]", self.name), &["{}", "{NULL}"], move |rng| {
            let count = rng.usize(..6);
            let elements: Vec<_> = (0..count).map(|_| element.any_or_null(rng)).collect();
            array(&elements, delimiter)
        });
        Type {
            delimiter,
            is_array: true,
            ..arrays.with(array(&edges, delimiter))
        }
    }
}

/// The text of an array.
pub fn array(elements: &[Option<String>], delimiter: char) -> String {
    let written: Vec<String> = elements
        .iter()
        .map(|element| match element {
            None => "NULL".to_owned(),
            Some(value) => format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\"")),
        })
        .collect();
    format!("{{{}}}", written.join(&delimiter.to_string()))
}

/// Within a row or a range.
pub fn doubled(value: &str) -> String {
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\"\""))
}

/// The text of a composite value.
pub fn row(attributes: &[Option<String>]) -> String {
    let written: Vec<String> = attributes
        .iter()
        .map(|attribute| attribute.as_deref().map(doubled).unwrap_or_default())
        .collect();
    format!("({})", written.join(","))
}

/// A type and bounds of ranges over it.
#[derive(Clone)]
pub struct Bounds {
    /// The range type's name.
    pub range: String,
    /// So many bounds, none above the next.
    ascending: Ascending,
}

impl Bounds {
    pub fn new(range: &str, ascending: impl Fn(&mut Rng, usize) -> Vec<String> + 'static) -> Self {
        Bounds {
            range: range.to_owned(),
            ascending: Arc::new(ascending),
        }
    }

    /// From bounds written out in their order.
    pub fn of(range: &str, bounds: &'static [&'static str]) -> Self {
        Self::new(range, move |rng, count| {
            let mut places: Vec<usize> = (0..count).map(|_| rng.usize(..bounds.len())).collect();
            places.sort_unstable();
            places.into_iter().map(|place| bounds[place].to_owned()).collect()
        })
    }

    pub fn ranges(&self) -> Type {
        let ascending = self.ascending.clone();
        Type::new(&self.range, &["empty", "(,)"], move |rng| {
            let [lower, upper] = ascending(rng, 2).try_into().unwrap();
            let lower = (rng.u32(..6) != 0).then_some(lower);
            let upper = (rng.u32(..6) != 0).then_some(upper);
            range(rng, lower.as_deref(), upper.as_deref())
        })
    }

    /// From Postgres 14 on.
    pub fn multiranges(&self) -> Type {
        let ascending = self.ascending.clone();
        let name = self.range.replace("range", "multirange");
        Type::new(&name, &["{}", "{(,)}", "{empty}"], move |rng| {
            let count = rng.usize(1..4);
            let bounds = ascending(rng, 2 * count);
            let ranges: Vec<String> = bounds
                .chunks(2)
                .enumerate()
                .map(|(at, pair)| {
                    let lower = (at > 0 || rng.u32(..6) != 0).then_some(pair[0].as_str());
                    range(rng, lower, Some(&pair[1]))
                })
                .collect();
            format!("{{{}}}", ranges.join(","))
        })
    }
}

fn range(rng: &mut Rng, lower: Option<&str>, upper: Option<&str>) -> String {
    let open = if lower.is_some() && rng.bool() { '[' } else { '(' };
    let close = if upper.is_some() && rng.bool() { ']' } else { ')' };
    let written = |bound: Option<&str>| bound.map(doubled).unwrap_or_default();
    format!("{open}{},{}{close}", written(lower), written(upper))
}
