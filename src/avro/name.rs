//! Avro names: `[A-Za-z_][A-Za-z0-9_]*` (Avro specification, "Names").
//!
//! What does not fit is escaped as in [`escape`](crate::envelope::escape), so that two columns of a table never meet in
//! one field. The original name then stands in the schema, as the property `walferry.name`.

use std::borrow::Cow;

use crate::envelope::escape::escape_into;

/// The Avro name of a column.
pub fn field_name(column: &str) -> Cow<'_, str> {
    let mut escaped = String::with_capacity(column.len());
    escape_into(column, allows, &mut escaped);
    if escaped == column {
        Cow::Borrowed(column)
    } else {
        Cow::Owned(escaped)
    }
}

/// The namespace of a topic's records: the topic, each of its dotted parts made a name.
pub fn namespace(topic: &str) -> String {
    let mut namespace = String::with_capacity(topic.len());
    for (index, part) in topic.split('.').enumerate() {
        if index > 0 {
            namespace.push('.');
        }
        escape_into(part, allows, &mut namespace);
    }
    namespace
}

fn allows(character: char, first: bool) -> bool {
    match character {
        'A'..='Z' | 'a'..='z' | '_' => true,
        '0'..='9' => !first,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::envelope::escape::tests::unescape;
    use proptest::prelude::*;

    #[test]
    fn names_that_avro_forbids_are_escaped() {
        for (column, expected) in [
            ("id", "id"),
            ("Order_2", "Order_2"),
            ("order-id", "order_u002Did"),
            ("1st", "_u0031st"),
            ("größe", "gr_u00F6_u00DFe"),
            ("a b", "a_u0020b"),
            ("🦀", "_uD83E_uDD80"),
            ("order_u002Did", "order_u005Fu002Did"),
            ("order_u002did", "order_u005Fu002did"),
            ("_user", "_user"),
            ("_uuid", "_uuid"),
        ] {
            assert_eq!(field_name(column), expected);
        }
    }

    #[test]
    fn a_topic_becomes_a_namespace_part_by_part() {
        assert_eq!(namespace("shop.public.orders"), "shop.public.orders");
        assert_eq!(namespace("my-shop.2nd.orders"), "my_u002Dshop._u0032nd.orders");
        assert_eq!(namespace("shop..orders"), "shop._u0000.orders");
    }

    proptest! {
        #[test]
        fn no_two_columns_share_a_field(
            column in prop_oneof!["[a-zA-Z0-9_]{0,8}", "(_|u|_u|00|2D|d83e|-|ö|🦀|1){0,6}", "[^\u{0}]{0,6}"]
        ) {
            let name = field_name(&column).into_owned();
            prop_assert!(name.chars().enumerate().all(|(at, character)| allows(character, at == 0)), "{}", name);
            prop_assert_eq!(unescape(&name), column);
        }
    }
}
