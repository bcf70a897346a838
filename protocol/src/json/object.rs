//! The members of a JSON object, kept in canonical order.
use super::Value;

/// Members of an object, in Unicode code point order of their keys, which is the canonical order.
///
/// A sorted vector rather than a tree: a body of 1 MiB that is full of tiny objects costs a few times its size
/// instead of eighty times, and the usual object of ten members is one allocation.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Object {
    /// Strictly ascending by key.
    members: Vec<(String, Value)>,
}

impl Object {
    /// An object without members.
    pub const fn new() -> Object {
        Object { members: Vec::new() }
    }
    /// The number of members.
    pub fn len(&self) -> usize {
        self.members.len()
    }
    /// Whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }
    /// The member of this name; a `null` member is found.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.find(key).ok().map(|at| &self.members[at].1)
    }
    /// The member of this name, to be changed.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        self.find(key).ok().map(|at| &mut self.members[at].1)
    }
    /// Whether there is a member of this name.
    pub fn contains_key(&self, key: &str) -> bool {
        self.find(key).is_ok()
    }
    /// Sets a member and returns the value that it had.
    pub fn insert(&mut self, key: String, value: Value) -> Option<Value> {
        match self.find(&key) {
            Ok(at) => Some(std::mem::replace(&mut self.members[at].1, value)),
            Err(at) => {
                self.members.insert(at, (key, value));
                None
            }
        }
    }
    /// Takes a member out.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        self.find(key).ok().map(|at| self.members.remove(at).1)
    }
    /// Keeps the members for which `keep` answers true, and no memory for the others.
    pub fn retain(&mut self, mut keep: impl FnMut(&String, &mut Value) -> bool) {
        self.members.retain_mut(|(key, value)| keep(key, value));
        self.members.shrink_to_fit();
    }
    /// The members in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&String, &Value)> + ExactSizeIterator + Clone {
        self.members.iter().map(|(key, value)| (key, value))
    }
    /// The names in order.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &String> + ExactSizeIterator + Clone {
        self.members.iter().map(|(key, _)| key)
    }
    /// The values in the order of their names.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &Value> + ExactSizeIterator + Clone {
        self.members.iter().map(|(_, value)| value)
    }

    fn find(&self, key: &str) -> Result<usize, usize> {
        self.members.binary_search_by(|(member, _)| member.as_str().cmp(key))
    }

    /// Sorts members as they came; of duplicate names the last one wins.
    pub(super) fn from_unsorted(mut members: Vec<(String, Value)>) -> Object {
        if !members.is_sorted_by(|a, b| a.0 < b.0) {
            // A stable sort keeps duplicates in their order, and the reversed pass sees the last of them first.
            members.sort_by(|a, b| a.0.cmp(&b.0));
            members.reverse();
            members.dedup_by(|later, kept| later.0 == kept.0);
            members.reverse();
        }
        Object { members }
    }
}

impl FromIterator<(String, Value)> for Object {
    fn from_iter<I: IntoIterator<Item = (String, Value)>>(members: I) -> Object {
        Object::from_unsorted(members.into_iter().collect())
    }
}
impl<const N: usize> From<[(String, Value); N]> for Object {
    fn from(members: [(String, Value); N]) -> Object {
        members.into_iter().collect()
    }
}
impl Extend<(String, Value)> for Object {
    fn extend<I: IntoIterator<Item = (String, Value)>>(&mut self, members: I) {
        let mut all = std::mem::take(&mut self.members);
        all.extend(members);
        *self = Object::from_unsorted(all);
    }
}
impl IntoIterator for Object {
    type Item = (String, Value);
    type IntoIter = std::vec::IntoIter<(String, Value)>;
    fn into_iter(self) -> Self::IntoIter {
        self.members.into_iter()
    }
}
impl<'a> IntoIterator for &'a Object {
    type Item = (&'a String, &'a Value);
    type IntoIter = Members<'a>;
    fn into_iter(self) -> Members<'a> {
        self.members.iter().map(|(key, value)| (key, value))
    }
}

/// What iterating over `&Object` yields.
pub type Members<'a> =
    std::iter::Map<std::slice::Iter<'a, (String, Value)>, fn(&'a (String, Value)) -> (&'a String, &'a Value)>;

#[cfg(test)]
mod tests {
    use super::*;

    fn object(members: &[(&str, i64)]) -> Object {
        members.iter().map(|(key, value)| (key.to_string(), Value::from(*value))).collect()
    }

    #[test]
    fn keeps_members_in_code_point_order() {
        let object = object(&[("😀", 1), ("\u{fffd}", 2), ("a", 3), ("", 4), ("B", 5)]);
        assert_eq!(object.keys().collect::<Vec<_>>(), ["", "B", "a", "\u{fffd}", "😀"]);
    }

    #[test]
    fn the_last_of_duplicate_names_wins() {
        let object = object(&[("b", 1), ("a", 2), ("b", 3), ("a", 4), ("b", 5)]);
        assert_eq!(object, [("a".to_owned(), Value::from(4)), ("b".to_owned(), Value::from(5))].into());
    }

    #[test]
    fn insert_replaces_and_remove_takes_out() {
        let mut object = object(&[("b", 1)]);
        assert_eq!(object.insert("a".into(), Value::Null), None);
        assert_eq!(object.insert("b".into(), Value::from(2)), Some(Value::from(1)));
        assert_eq!(object.remove("b"), Some(Value::from(2)));
        assert_eq!(object.remove("b"), None);
        assert!(object.contains_key("a") && object.len() == 1);
    }
}
