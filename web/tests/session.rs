//! What a page can hand to a [`Session`]: files with any bytes, numbers and names of nothing, in any
//! order. A panic would end the page's worker; so each of them has to be answered.

use proptest::prelude::*;
use std::{collections::BTreeMap, path::Path, sync::LazyLock};
use vitempo::graph::ImageSize;
use vitempo_web::{
    Failure, Session,
    answers::{Dimensions, Read},
};

const TRAINED: &str = "epyc-rten-f32-1t";
const ADAPTED: &str = "iphonexs-tflite-gpu-f32";
const SPACE: &str = "hybrid-vit";

static MODEL: LazyLock<Vec<u8>> = LazyLock::new(|| file("tests/models/mobilevit_xxs.onnx"));
static BUNDLES: LazyLock<[Vec<u8>; 2]> = LazyLock::new(|| {
    [file(&format!("bundles/{TRAINED}.vtb")), file(&format!("bundles/adapted/{ADAPTED}.vtb"))]
});

fn file(path: &str) -> Vec<u8> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    std::fs::read(root.join(path)).expect("a file of the repository")
}

fn with_bundles() -> Session {
    let mut session = Session::new();
    for (name, bytes) in [TRAINED, ADAPTED].iter().zip(&*BUNDLES) {
        session.add_bundle(&format!("{name}.vtb"), bytes).expect("a bundle that ships");
    }
    session
}

/// Changed bytes of a file, of which the rest may be cut off.
#[derive(Clone, Debug)]
struct Damage {
    changes: Vec<(prop::sample::Index, u8)>,
    kept: Option<prop::sample::Index>,
}

impl Damage {
    fn any() -> impl Strategy<Value = Self> {
        let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6);
        (changes, prop::option::weighted(0.3, any::<prop::sample::Index>()))
            .prop_map(|(changes, kept)| Self { changes, kept })
    }

    fn of(&self, whole: &[u8]) -> Vec<u8> {
        let mut bytes = whole.to_vec();
        for (at, value) in &self.changes {
            bytes[at.index(whole.len())] = *value;
        }
        bytes.truncate(self.kept.map_or(whole.len(), |kept| kept.index(whole.len())));
        bytes
    }
}

/// One request of a page. Numbers of models are those that were opened, and those that were not.
#[derive(Clone, Debug)]
enum Request {
    Read(String, Damage, BTreeMap<String, usize>),
    Example(String),
    Close(u32),
    Forecast(u32, Option<ImageSize>, String),
    Details(u32, Option<ImageSize>, String),
    Compare([u32; 2], Option<ImageSize>, String),
    AtSize(u32, ImageSize),
    Split(u32, [String; 2], u64, u64),
    Sampled(String, String),
    SampleLatency(String, String),
    Draw(usize, u32),
}

fn request() -> impl Strategy<Value = Request> {
    let model = || 0_u32..4;
    let side = || prop_oneof![1_usize..300, Just(224), Just(256), Just(65536)];
    let image =
        move || (side(), side()).prop_filter_map("a size", |(h, w)| ImageSize::new(h, w).ok());
    let size = move || prop::option::of(image());
    let bundle = || prop_oneof![Just(TRAINED.to_owned()), Just(ADAPTED.to_owned()), ".{0,4}"];
    let named = |name: &str| prop_oneof![3 => Just(name.to_owned()), 1 => ".{0,8}"];
    let values = prop::collection::btree_map("[a-z]{1,3}", any::<usize>(), 0..3);
    let rate = || prop_oneof![any::<u64>(), 0_u64..1_000_000_000];
    let encoding = || prop_oneof![".{0,12}", "[0-9,;|x-]{0,40}"];
    prop_oneof![
        ("[a-z]{0,3}\\.(onnx|tflite|vtb)?", Damage::any(), values)
            .prop_map(|(name, damage, values)| Request::Read(name, damage, values)),
        named("edgenext_xx_small").prop_map(Request::Example),
        model().prop_map(Request::Close),
        (model(), size(), bundle()).prop_map(|(m, s, b)| Request::Forecast(m, s, b)),
        (model(), size(), bundle()).prop_map(|(m, s, b)| Request::Details(m, s, b)),
        ([model(), model()], size(), bundle()).prop_map(|(m, s, b)| Request::Compare(m, s, b)),
        (model(), image()).prop_map(|(m, s)| Request::AtSize(m, s)),
        (model(), [bundle(), bundle()], rate(), rate())
            .prop_map(|(m, b, rate, trip)| Request::Split(m, b, rate, trip)),
        (named(SPACE), encoding()).prop_map(|(s, e)| Request::Sampled(s, e)),
        (encoding(), bundle()).prop_map(|(e, b)| Request::SampleLatency(e, b)),
        (0_usize..40, any::<u32>()).prop_map(|(count, seed)| Request::Draw(count, seed)),
    ]
}

/// What the session says to a request, in short.
fn answer(session: &mut Session, request: &Request) -> Result<String, Failure> {
    Ok(match request {
        Request::Read(name, damage, values) => {
            let dimensions = Dimensions(values.clone());
            format!("{:?}", session.read(name, &damage.of(&MODEL), &dimensions)?)
        }
        Request::Example(name) => format!("{:?}", session.example(name)?),
        Request::Close(model) => {
            session.close(*model);
            String::new()
        }
        Request::Forecast(model, size, bundle) => {
            format!("{:?}", session.forecast(*model, *size, bundle)?)
        }
        Request::Details(model, size, bundle) => {
            format!("{:?}", session.details(*model, *size, bundle)?.latency)
        }
        Request::Compare([first, second], size, bundle) => {
            let models = [(*first, *size), (*second, None)];
            format!("{:?}", session.compare(models, bundle)?)
        }
        Request::AtSize(model, size) => {
            format!("{:?}", session.at_size(*model, *size, &[ADAPTED.to_owned()])?)
        }
        Request::Split(model, [device, server], rate, trip) => {
            format!("{:?}", session.split(*model, None, [device, server], *rate, *trip)?.best)
        }
        Request::Sampled(space, encoding) => format!("{:?}", session.sampled(space, encoding)?),
        Request::SampleLatency(encoding, bundle) => {
            format!("{:?}", session.sample_latency(SPACE, encoding, bundle)?)
        }
        Request::Draw(count, seed) => session.draw(SPACE, *count, *seed)?.join(" "),
    })
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases) }
}

proptest! {
    #![proptest_config(config(40))]

    /// Equal requests have equal answers, whatever was asked before: nothing that a session keeps
    /// changes what it says.
    #[test]
    fn any_requests_are_answered_twice_alike(
        requests in prop::collection::vec(request(), 1..12)
    ) {
        let mut sessions = [with_bundles(), with_bundles()];
        for request in &requests {
            let [first, second] = sessions.each_mut().map(|session| answer(session, request));
            if let Err(failure) = &first {
                prop_assert!(!failure.message.is_empty(), "{:?}", request);
            }
            prop_assert_eq!(first, second);
        }
    }
}

proptest! {
    #![proptest_config(config(256))]

    #[test]
    fn damaged_bundles_are_refused_and_change_nothing(
        damage in Damage::any(), which in 0..BUNDLES.len()
    ) {
        let mut session = with_bundles();
        let model = session.example("mobilevit_xxs").expect("a model that ships").id;
        let before = session.forecast(model, None, ADAPTED);
        let bytes = damage.of(&BUNDLES[which]);
        match session.add_bundle(&format!("{ADAPTED}.vtb"), &bytes) {
            Ok(_) => prop_assert!(bytes == BUNDLES[which], "a changed bundle is opened"),
            Err(failure) => {
                prop_assert!(failure.message.contains(ADAPTED), "{}", failure.message);
                prop_assert_eq!(session.forecast(model, None, ADAPTED), before);
            }
        }
    }

    #[test]
    fn files_of_any_bytes_are_answered(name in ".{0,12}", bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let mut session = Session::new();
        let read = session.read(&name, &bytes, &Dimensions::default());
        prop_assert!(read.err().is_none_or(|failure| !failure.message.is_empty()));
        prop_assert!(session.add_bundle(&name, &bytes).is_err());
    }
}

#[test]
fn a_model_asks_for_its_dimensions_and_forecasts_follow_its_size() {
    let mut session = with_bundles();
    let Ok(Read::Model(card)) = session.read("m.onnx", &MODEL, &Dimensions::default()) else {
        panic!("the model has no open dimension")
    };
    let [small, large] = [128, 512].map(|side| {
        let size = ImageSize::new(side, side).expect("a size");
        session.forecast(card.id, Some(size), ADAPTED).expect("a forecast").latency
    });
    let own = session.forecast(card.id, None, ADAPTED).expect("a forecast").latency;
    assert!(small.point < own.point && own.point < large.point, "{small:?} {own:?} {large:?}");
    session.close(card.id);
    assert!(session.forecast(card.id, None, ADAPTED).is_err(), "it was closed");
}
