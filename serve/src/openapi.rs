//! The OpenAPI document: `openapi.json`, completed with the limits, bundles and spaces of this
//! server.

use super::Limits;
use serde_json::{Value, json};
use vitempo::search_space::Space;

/// The document for a server with these spaces and limits, with a token or
/// not.
#[must_use]
pub fn document(spaces: &[Space], limits: &Limits, token: bool) -> Value {
    // A test reads it.
    let mut document: Value =
        serde_json::from_str(include_str!("openapi.json")).unwrap_or_default();
    document["info"]["version"] = env!("CARGO_PKG_VERSION").into();
    let request = &mut document["components"]["schemas"]["Request"]["properties"];
    request["space"]["enum"] = spaces.iter().map(Space::name).collect();
    for list in ["encodings", "models"] {
        request[list]["maxItems"] = limits.forecasts.into();
    }
    let body = &mut document["paths"]["/predict"]["post"]["requestBody"];
    body["description"] = format!(
        "At most {} bytes, for at most {} forecasts (models times bundles).",
        limits.body_bytes, limits.forecasts
    )
    .into();
    if let Some(space) = spaces.first() {
        body["content"]["application/json"]["example"] =
            json!({"encodings": [space.sample(0).encode()], "breakdown": false});
    }
    if token {
        document["components"]["securitySchemes"] =
            json!({"bearer": {"type": "http", "scheme": "bearer"}});
        document["security"] = json!([{"bearer": []}]);
    }
    document
}

#[cfg(test)]
mod tests {
    use super::*;
    use vitempo::graph::PredictionSource;

    fn of(token: bool) -> Value {
        document(
            &[Space::named("hybrid-vit").unwrap_or_else(|e| panic!("{e}"))],
            &Limits::default(),
            token,
        )
    }

    #[test]
    fn it_says_what_this_server_knows() {
        let document = of(true);
        assert_eq!(
            document["components"]["schemas"]["Request"]["properties"]["space"]["enum"],
            json!(["hybrid-vit"])
        );
        assert_eq!(document["security"], json!([{"bearer": []}]));
        assert!(of(false).get("security").is_none());
        let example = &document["paths"]["/predict"]["post"]["requestBody"]["content"]["application/json"]
            ["example"];
        let bytes = example.to_string().into_bytes();
        let asked = super::super::request::Asked::read(
            super::super::request::Media::Json,
            bytes,
            super::super::request::Settings::default(),
        );
        assert!(asked.is_ok_and(|asked| asked.subjects.len() == 1), "{example}");
    }

    #[test]
    fn sizes_are_bounded_as_described() {
        let most = Some(json!(super::super::request::MOST_SIZES));
        let document = of(false);
        let sizes = "/components/schemas/Request/properties/sizes";
        assert_eq!(document.pointer(&format!("{sizes}/maxItems")).cloned(), most);
        let query = &document["paths"]["/predict"]["post"]["parameters"][3];
        assert_eq!(
            (&query["name"], query.pointer("/schema/maxItems").cloned()),
            (&json!("size"), most)
        );
        assert_eq!(
            query.pointer("/schema/items/pattern"),
            document.pointer(&format!("{sizes}/items/pattern"))
        );
    }

    #[test]
    fn sources_of_operators_are_those_that_forecasts_have() {
        let source = of(false)
            .pointer("/components/schemas/Forecast/properties/operators/items/properties/source")
            .cloned();
        let every = [PredictionSource::Model, PredictionSource::Fallback];
        assert_eq!(source, Some(json!({ "enum": every })));
    }

    #[test]
    fn every_reference_leads_somewhere() {
        fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
            match value {
                Value::Object(members) => {
                    found.extend(members.get("$ref").and_then(Value::as_str));
                    members.values().for_each(|v| references(v, found));
                }
                Value::Array(items) => items.iter().for_each(|v| references(v, found)),
                _ => {}
            }
        }
        let document = of(false);
        let mut found = Vec::new();
        references(&document, &mut found);
        assert!(found.len() > 15);
        for reference in found {
            assert!(
                reference
                    .strip_prefix('#')
                    .is_some_and(|pointer| document.pointer(pointer).is_some()),
                "{reference}"
            );
        }
    }
}
