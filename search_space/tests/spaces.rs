//! Spaces from files: what a user may change, and the errors for invalid files.
#![allow(clippy::unwrap_used)]

use std::collections::HashSet;
use vitempo_search_space::{Generator, Space, SpaceError};

fn original() -> &'static str {
    Space::toml("hybrid-vit").unwrap()
}

/// The original with the first occurrence of a text replaced.
fn changed(from: &str, to: &str) -> String {
    assert!(original().contains(from), "{from}");
    original().replacen(from, to, 1)
}

/// 2 heights x 2 channels x 2 kernels: 8 architectures.
const TINY: &str = r#"
family = "hybrid-vit"
name = "tiny"
classes = 10
merged_stages = [1]
[input]
channels = 1
heights = [8, 16]
widths = [8]
[[stages]]
channels = [4, 8]
depths = [2]
token_mixers = ["sep_conv"]
norms = ["layer_norm"]
activations = ["silu"]
mlp_ratios = [1]
kernels = [1, 3]
expansions = [2]
heads = { max = 1 }
reductions = [1]
"#;

#[test]
fn mistakes_are_named_with_what_is_allowed() {
    let cases = [
        (
            changed("family = \"hybrid-vit\"", "family = \"cnn\""),
            &["`family` is `cnn`", "`hybrid-vit`, `isotropic-vit`, `mbconv`"][..],
        ),
        (changed("name = \"hybrid-vit\"", "name = \"a b/c\""), &["`name` is `a b/c`", "letters"]),
        (changed("classes = 1000", "classes = 0"), &["`classes` is 0", "1 to 1000000"]),
        (changed("classes = 1000", "clases = 1000"), &["unknown field `clases`", "`classes`"]),
        (changed("classes = 1000", "classes = 1e3"), &["invalid type", "u32"]),
        (
            changed("merged_stages = { min = 2, max = 4 }", "merged_stages = [0]"),
            &["`merged_stages` has 0", "1 to 6"],
        ),
        (
            changed("merged_stages = { min = 2, max = 4 }", "merged_stages = { min = 4, max = 2 }"),
            &["min 4 is above max 2"],
        ),
        (
            changed("heights = [224, 256, 288, 384]", "heights = [32]"),
            &["`input.heights` has 32", "64 to"],
        ),
        (changed("widths = [224, 256, 288, 384]", "widths = []"), &["empty"]),
        (changed("channels = 3\n", "channels = 0\n"), &["`input.channels` is 0"]),
        (
            changed("channels = { min = 32, max = 80, step = 8 }", "channels = [0]"),
            &["`channels` of [[stages]] number `2` has 0", "1 to 16384"],
        ),
        (
            changed("channels = { min = 192, max = 384, step = 8 }", "channels = [2000]"),
            &["`channels` cannot rise", "starting with stage 2"],
        ),
        (
            changed("token_mixers = [\"sep_conv\", \"attention\"]", "token_mixers = []"),
            &["`token_mixers` of [[stages]] number `1` is empty", "sep_conv"],
        ),
        (
            changed("token_mixers = [\"sep_conv\", \"attention\"]", "token_mixers = [\"conv\"]"),
            &["unknown variant `conv`", "`attention`"],
        ),
        (
            changed(
                "norms = [\"batch_norm\", \"layer_norm\"]",
                "norms = [\"layer_norm\", \"layer_norm\"]",
            ),
            &["lists a value twice"],
        ),
        (
            changed("kernels = [1, 3, 5, 7]", "kernels = [2]"),
            &["`kernels` of [[stages]] number `1` has 2", "odd numbers"],
        ),
        (
            changed("expansions = { min = 1, max = 8 }", "expansions = { min = 0, max = 8 }"),
            &["`expansions` of [[stages]] number `1` has 0"],
        ),
        (
            changed("heads = { max = 12, min_channels = 16 }", "heads = { max = 0 }"),
            &["`heads` of [[stages]] number `1` has 0"],
        ),
        (
            changed("heads = { max = 12, min_channels = 16 }", "heads = { maximum = 3 }"),
            &["unknown field `maximum`", "`min_channels`"],
        ),
        (
            changed("reductions = [2, 4, 8, 16]", "reductions = [500]"),
            &["`reductions` of [[stages]] number `1` has 500", "1 to 112"],
        ),
        (changed("[[stages]]", "[[stage]]"), &["unknown field `stage`"]),
        (original().split("[[stages]]").next().unwrap().to_owned(), &["missing field `stages`"]),
        (
            original().to_owned() + &original()[original().find("[[stages]]").unwrap()..],
            &["`stages` has 12 entries", "1 to 8"],
        ),
        ("not = toml = at all".to_owned(), &["line 1"]),
    ];
    for (text, parts) in cases {
        let message = Space::parse("mine.toml", &text)
            .map_or_else(|e| e.to_string(), |_| format!("accepted: {text}"));
        for part in parts.iter().chain(&["mine.toml"]) {
            assert!(message.contains(part), "no `{part}` in: {message}");
        }
    }
}

#[test]
fn spaces_are_found_by_name_or_path() {
    assert_eq!(Space::names().collect::<Vec<_>>(), ["hybrid-vit", "isotropic-vit", "mbconv"]);
    for name in Space::names() {
        assert_eq!(Space::find(name).unwrap().name(), name);
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tiny.toml");
    std::fs::write(&path, TINY).unwrap();
    assert_eq!(Space::find(path.to_str().unwrap()).unwrap().name(), "tiny");
    assert_eq!(Space::load(&path).unwrap().name(), "tiny");
    let unknown = Space::find("hybrid-vitt").unwrap_err().to_string();
    assert!(
        unknown.contains("hybrid-vitt") && unknown.contains("there are: hybrid-vit, isotropic-vit"),
        "{unknown}"
    );
    assert!(matches!(Space::find("absent.toml"), Err(SpaceError::Io { .. })));
    assert!(matches!(Space::load(folder.path()), Err(SpaceError::Io { .. })));
}

#[test]
fn a_small_space_is_sampled_to_the_last_and_no_further() {
    let tiny = Space::parse("tiny.toml", TINY).unwrap();
    assert_eq!(tiny.size(), 8);
    let all = tiny.sample_many(8, 3).unwrap();
    assert_eq!(all.iter().collect::<HashSet<_>>().len(), 8);
    assert_eq!(tiny.sample_many(5, 3).unwrap(), all[..5]);
    let message = tiny.sample_many(9, 3).unwrap_err().to_string();
    assert!(message.contains("`tiny` holds 8") && message.contains("9 asked for"), "{message}");
    for architecture in &all {
        assert_eq!(architecture.family(), tiny.family());
        let graph = architecture.to_graph().unwrap();
        assert_eq!(graph.kinds()["conv"], 1 + 2 * 5);
        assert_eq!(tiny.decode(&architecture.encode()).unwrap(), *architecture);
        let mutant = tiny.mutate(architecture, &mut Generator::new(1)).unwrap();
        assert_ne!(mutant, *architecture);
    }
    assert!(tiny.sample_many(0, 3).unwrap().is_empty());
}

#[test]
fn a_space_of_one_has_no_mutants() {
    let text = TINY.replace("[8, 16]", "[8]").replace("[4, 8]", "[4]").replace("[1, 3]", "[3]");
    let one = Space::parse("one.toml", &text).unwrap();
    assert_eq!(one.size(), 1);
    let only = one.sample(0);
    assert_eq!(one.mutate(&only, &mut Generator::new(1)).unwrap(), only);
}

#[test]
fn what_is_not_in_the_space_is_named() {
    let space = Space::named("hybrid-vit").unwrap();
    let good = "hv1-288x224-k4-s192k5e4m3bg-a256h4r1m1ls-s384k3e2m2lg";
    let architecture = space.decode(good).unwrap();
    assert_eq!(architecture.encode(), good);
    assert!(
        space.decode("hv1-288x224-k3-s184k5e4m3bg-a280h2r1m4lg-s384k7e2m1bs-a848h8r1m2lg").is_ok(),
        "the example of docs/search-space.md"
    );
    let cases = [
        ("", "must begin with `hv1-`"),
        ("hv2-288x224-k4", "must begin with `hv1-`"),
        ("iv1-224p16-c192h3m4lgx12-t", "this one is of the family isotropic-vit"),
        ("hv1", "HEIGHTxWIDTH is missing"),
        ("hv1-288-k4", "`x` and a number are missing"),
        ("hv1-288x224", "kNUMBER is missing"),
        ("hv1-288x99999-k4", "`x99999` is not a valid number here"),
        ("hv1-288x224-k4", "the number of stages is 0; allowed: 3"),
        ("hv1-288x224-k9", "merged_stages is 9; allowed: 2, 3, 4"),
        ("hv1-100x224-k4", "height is 100; allowed: 224, 256, 288, 384"),
        ("hv1-288x224-k4-q192", "at `q192`: a stage begins with `s`"),
        ("hv1-288x224-k4-s192k5e4m3bgz", "`x` and a number are missing"),
        (
            "hv1-288x224-k4-s192k5e4m3bgx1-a256h4r1m1ls-s384k3e2m2lg",
            "write `hv1-288x224-k4-s192k5e4m3bg-",
        ),
        (
            "hv1-288x224-k4-s0192k5e4m3bg-a256h4r1m1ls-s384k3e2m2lg",
            "write `hv1-288x224-k4-s192k5e4m3bg-",
        ),
        (
            "hv1-288x224-k4-s192k9e4m3bg-a256h4r1m1ls-s384k3e2m2lg",
            "kernel of stage 4 is 9; allowed: 1, 3, 5, 7",
        ),
        (
            "hv1-288x224-k4-s192k5e4m3bg-a256h3r1m1ls-s384k3e2m2lg",
            "heads of stage 5 is 3; allowed: 1, 2, 4, 8",
        ),
        (
            "hv1-288x224-k4-s192k5e4m3bg-a256h4r2m1ls-s384k3e2m2lg",
            "reduction of stage 5 is 2; allowed: 1",
        ),
        (
            "hv1-288x224-k4-s192k5e4m3bg-a392h4r1m1ls-s384k3e2m2lg",
            "channels of stage 6 is 384; allowed: more than the 392",
        ),
        (
            "hv1-288x224-k4-s192k5e4m3bgx2-a256h4r1m1ls-s384k3e2m2lg",
            "depth of stage 4 is 2; allowed: 1",
        ),
        (
            "hv1-288x224-k4-s192k5e4m5bg-a256h4r1m1ls-s384k3e2m2lg",
            "mlp_ratio of stage 4 is 5; allowed: 1, 2, 3, 4",
        ),
    ];
    for (text, part) in cases {
        let message = space.decode(text).map_or_else(|e| e.to_string(), |_| "accepted".to_owned());
        assert!(message.contains(part), "{text}: {message}");
    }
    let tiny = Space::parse("tiny.toml", TINY).unwrap();
    assert!(matches!(
        tiny.mutate(&architecture, &mut Generator::new(0)),
        Err(SpaceError::Outside { .. })
    ));
}

/// 3 pairs of image and patch sizes, (8, 4), (8, 8), (12, 4), x 5 of channels and heads, (4, 1),
/// (4, 2), (6, 1), (6, 2), (6, 3), x 2 depths: 30 architectures.
const TINY_ISOTROPIC: &str = r#"
family = "isotropic-vit"
name = "tiny-isotropic"
classes = 10
channels = [4, 6]
heads = { max = 3, min_channels = 2 }
depths = [1, 5]
mlp_ratios = [2]
norms = ["layer_norm"]
activations = ["gelu"]
poolings = ["average"]
[input]
channels = 1
sizes = [8, 12]
patch_sizes = [4, 8]
"#;

#[test]
fn mistakes_in_an_isotropic_space_are_named_with_what_is_allowed() {
    let cases = [
        ("classes = 10", "clases = 10", "unknown field `clases`"),
        ("classes = 10", "classes = 0", "`classes` is 0; allowed: 1 to 1000000"),
        ("channels = [4, 6]", "channels = [0]", "`channels` has 0; allowed: 1 to 16384"),
        ("max = 3", "max = 0", "`heads` has 0"),
        ("depths = [1, 5]", "depths = [65]", "`depths` has 65; allowed: 1 to 64"),
        ("mlp_ratios = [2]", "mlp_ratios = []", "list of values is empty"),
        ("[\"layer_norm\"]", "[\"rms_norm\"]", "unknown variant `rms_norm`"),
        ("[\"gelu\"]", "[]", "`activations` is empty"),
        ("[\"average\"]", "[\"average\", \"average\"]", "`poolings` lists a value twice"),
        ("sizes = [8, 12]", "sizes = [8, 12, 9]", "`input.sizes` has 9; allowed: multiples of"),
        ("patch_sizes = [4, 8]", "patch_sizes = [4, 5]", "`input.patch_sizes` has 5; allowed"),
        ("name = \"tiny-isotropic\"", "", "missing field `name`"),
        ("family = \"isotropic-vit\"", "", "missing field `family`"),
        (
            "family = \"isotropic-vit\"",
            "family = \"hybrid-vit\"",
            "expected one of `family`, `name`, `classes`, `merged_stages`",
        ),
    ];
    for (from, to, part) in cases {
        assert!(TINY_ISOTROPIC.contains(from), "{from}");
        let message = Space::parse("mine.toml", &TINY_ISOTROPIC.replacen(from, to, 1))
            .map_or_else(|e| e.to_string(), |_| "accepted".to_owned());
        assert!(message.contains(part) && message.contains("mine.toml"), "{to}: {message}");
    }
}

#[test]
fn a_small_isotropic_space_is_sampled_to_the_last_and_its_mutants_reach_all_of_it() {
    let tiny = Space::parse("tiny.toml", TINY_ISOTROPIC).unwrap();
    assert_eq!((tiny.size(), tiny.family()), (30, "isotropic-vit"));
    let all: HashSet<_> = tiny.sample_many(30, 3).unwrap().into_iter().collect();
    assert_eq!(all.len(), 30);
    assert!(tiny.sample_many(31, 3).is_err());
    let mut generator = Generator::new(1);
    let (mut reached, mut parent) = (HashSet::new(), tiny.sample(0));
    for _ in 0..2000 {
        let child = tiny.mutate(&parent, &mut generator).unwrap();
        assert!(child != parent && all.contains(&child), "{child} from {parent}");
        reached.insert(child);
        parent = child;
    }
    assert_eq!(reached, all);
}

#[test]
fn families_do_not_mix() {
    let [hybrid, isotropic] = ["hybrid-vit", "isotropic-vit"].map(|n| Space::named(n).unwrap());
    let (one, other) = (hybrid.sample(1), isotropic.sample(1));
    let mut generator = Generator::new(1);
    for (space, stranger) in [(&hybrid, &other), (&isotropic, &one)] {
        assert!(!space.includes(stranger));
        let message = space.contains(stranger).unwrap_err().to_string();
        let says = format!("family is {}; allowed: {}", stranger.family(), space.family());
        assert!(message.contains(&says), "{message}");
        assert!(space.mutate(stranger, &mut generator).is_err());
        assert!(space.decode(&stranger.encode()).is_err());
    }
    assert_eq!(hybrid.cross(&one, &other, &mut generator), one);
    assert_eq!(isotropic.cross(&other, &one, &mut generator), other);
}

#[test]
fn what_is_not_in_an_isotropic_space_is_named() {
    let space = Space::named("isotropic-vit").unwrap();
    let good = "iv1-224p16-c192h3m4lgx12-t";
    assert_eq!(space.decode(good).unwrap().encode(), good);
    let cases = [
        ("iv2-224p16", "must begin with `iv1-`"),
        ("iv1", "SIZEpPATCH is missing"),
        ("iv1-224", "`p` and a number are missing"),
        ("iv1-224p16", "cCHANNELShHEADS... is missing"),
        ("iv1-224p16-c192", "`h` and a number are missing"),
        ("iv1-224p16-c192h3m4lgx12", "`t` (class_token) or `a` (average) is missing"),
        ("iv1-224p16-c192h3m4lgx12-c", "at `c`: here comes `t`"),
        ("iv1-224p16-c192h3m4lgx12-tt", "`t` is too much"),
        ("iv1-224p16-c192h3m4lgx12-t-a", "at `a`: `a` is too much"),
        ("iv1-224p16-c192h3m4lgx012-t", "write `iv1-224p16-c192h3m4lgx12-t`"),
        ("iv1-224p999-c192h3m4lgx12-t", "`p999` is not a valid number here"),
        ("iv1-225p16-c192h3m4lgx12-t", "image_size is 225; allowed: 160, 192"),
        ("iv1-224p15-c192h3m4lgx12-t", "patch_size is 15; allowed: 14, 16, 32"),
        ("iv1-256p14-c192h3m4lgx12-t", "patch_size is 14; allowed: divisors of the image's 256"),
        ("iv1-224p16-c200h4m4lgx12-t", "channels is 200; allowed: 128, 160"),
        ("iv1-224p16-c192h5m4lgx12-t", "heads is 5; allowed: 1, 2, 3, 4, 6"),
        ("iv1-224p16-c192h3m4lgx3-t", "depth is 3; allowed: 4, 5"),
        ("iv1-224p16-c192h3m9lgx12-t", "mlp_ratio is 9; allowed: 1, 2, 3, 4"),
    ];
    for (text, part) in cases {
        let message = space.decode(text).map_or_else(|e| e.to_string(), |_| "accepted".to_owned());
        assert!(message.contains(part), "{text}: {message}");
    }
}

#[test]
fn an_encoding_names_its_space() {
    for name in Space::names() {
        let space = Space::named(name).expect("a space");
        let encoding = space.sample(3).encode();
        assert_eq!(Space::of_encoding(&encoding).expect("its space").name(), name);
    }
    let error = Space::of_encoding("vit.onnx").expect_err("no encoding").to_string();
    assert!(error.contains("`vit.onnx` is not an encoded architecture"), "{error}");
}
