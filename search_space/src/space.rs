//! [`Space`]: a search space by name or from a user's file.

use crate::architecture::AnyFamily;
use crate::checker::Checker;
use crate::rank::Rank;
use crate::verdict::{Fault, Outside};
use crate::{Architecture, Generator, SpaceError};
use serde::Deserialize;
use std::path::Path;

/// The spaces that come with the crate: name and TOML.
const BUILT_IN: [(&str, &str); 3] = [
    ("hybrid-vit", include_str!("../spaces/hybrid-vit.toml")),
    ("isotropic-vit", include_str!("../spaces/isotropic-vit.toml")),
    ("mbconv", include_str!("../spaces/mbconv.toml")),
];

/// What every family's TOML has.
#[derive(Deserialize)]
struct Preamble {
    family: String,
}

/// A set of architectures, described by ranges.
#[derive(Clone, Debug)]
pub struct Space {
    family: AnyFamily,
}

impl Space {
    /// Names of the spaces that come with the crate.
    pub fn names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|(name, _)| *name)
    }

    /// The TOML of a space that comes with the crate, to copy and change.
    #[must_use]
    pub fn toml(name: &str) -> Option<&'static str> {
        BUILT_IN.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
    }

    /// A space that comes with the crate.
    ///
    /// # Errors
    /// [`SpaceError::UnknownName`], which lists the known ones.
    pub fn named(name: &str) -> Result<Self, SpaceError> {
        match Self::toml(name) {
            Some(text) => Self::parse(name, text),
            None => Err(SpaceError::UnknownName {
                name: name.to_owned(),
                known: Self::names().collect::<Vec<_>>().join(", "),
            }),
        }
    }

    /// A space from a TOML file.
    ///
    /// # Errors
    /// [`SpaceError`] naming file, key and what is allowed.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, SpaceError> {
        let path = path.as_ref();
        let text = vitempo_graph::files::read_text(path)
            .map_err(|source| SpaceError::Io { path: path.to_owned(), source })?;
        Self::parse(&path.display().to_string(), &text)
    }

    /// What a command line gives: the name of a space that comes with the crate, or else the path
    /// of a TOML file.
    ///
    /// # Errors
    /// As [`Space::named`] when it looks like a name, as [`Space::load`] when it looks like a path
    /// (has a separator or ends in `.toml`) or is a file.
    pub fn find(name_or_path: &str) -> Result<Self, SpaceError> {
        let path = Path::new(name_or_path);
        let is_path = path.components().count() > 1
            || path.extension().is_some_and(|e| e == "toml")
            || path.is_file();
        if Self::toml(name_or_path).is_none() && is_path {
            Self::load(path)
        } else {
            Self::named(name_or_path)
        }
    }

    /// The space that comes with the crate whose encodings begin as `text` does.
    ///
    /// # Errors
    /// [`SpaceError::Encoding`] where no family's encodings begin so.
    pub fn of_encoding(text: &str) -> Result<Self, SpaceError> {
        let family = Architecture::family_of(text);
        let mut spaces = Self::names().filter_map(|name| Self::named(name).ok());
        spaces.find(|space| Some(space.family()) == family).ok_or_else(|| SpaceError::Encoding {
            text: text.to_owned(),
            at: text.split('-').next().unwrap_or_default().to_owned(),
            reason: "no search space has encodings that begin like this".to_owned(),
        })
    }

    /// A space from the text of a TOML file, whose key `family` determines its other keys; errors
    /// name it `file`.
    ///
    /// # Errors
    /// [`SpaceError`] naming key and what is allowed.
    pub fn parse(file: &str, text: &str) -> Result<Self, SpaceError> {
        let check = Checker::new(file);
        let Preamble { family } = check.definition(text)?;
        match AnyFamily::parse(&family, file, text) {
            Some(parsed) => Ok(Self { family: parsed? }),
            None => check.refuse(
                "family",
                format!("is `{family}`"),
                AnyFamily::NAMES.iter().map(|f| format!("`{f}`")).collect::<Vec<_>>().join(", "),
            ),
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.family.name()
    }

    /// The name of the family that its architectures are of.
    #[must_use]
    pub fn family(&self) -> &'static str {
        self.family.family()
    }

    /// How many architectures it holds; saturates.
    #[must_use]
    pub fn size(&self) -> u128 {
        self.family.size()
    }

    pub(crate) fn nth_of_family(&self, rank: Rank) -> Option<Architecture> {
        self.family.nth(rank)
    }

    /// One architecture at random.
    pub fn draw(&self, generator: &mut Generator) -> Architecture {
        self.family.draw(generator)
    }

    /// An architecture of this space that differs from `parent` in one choice, or in more if other
    /// choices depend on it; `parent` itself only if the space has no other.
    ///
    /// # Errors
    /// [`SpaceError::Outside`] when `parent` is not in this space.
    pub fn mutate(
        &self,
        parent: &Architecture,
        generator: &mut Generator,
    ) -> Result<Architecture, SpaceError> {
        self.contains(parent)?;
        Ok(self.family.mutate(parent, generator))
    }

    /// An architecture of this space with parts of either parent; the first one again where parts
    /// of both give no member.
    pub fn cross(
        &self,
        one: &Architecture,
        other: &Architecture,
        generator: &mut Generator,
    ) -> Architecture {
        let child = AnyFamily::cross(one, other, generator);
        if self.includes(&child) { child } else { *one }
    }

    /// The architecture of this space that `text` encodes.
    ///
    /// # Errors
    /// [`SpaceError::Encoding`] naming the part that cannot be read, [`SpaceError::Outside`] when
    /// it reads but is not in this space.
    pub fn decode(&self, text: &str) -> Result<Architecture, SpaceError> {
        let architecture = self.family.decode(text)?;
        // Searches check membership a million times; only failures need a reason.
        if self.includes(&architecture) {
            Ok(architecture)
        } else {
            self.contains(&architecture).map(|()| architecture)
        }
    }

    /// Whether an architecture is in this space.
    ///
    /// # Errors
    /// [`SpaceError::Outside`] naming the first respect in which it is not.
    pub fn contains(&self, architecture: &Architecture) -> Result<(), SpaceError> {
        match self.family.fault::<Fault>(architecture) {
            None => Ok(()),
            Some(f) => Err(SpaceError::Outside {
                space: self.name().to_owned(),
                what: f.what,
                value: f.value,
                allowed: f.allowed,
            }),
        }
    }

    /// The same without the reason, and faster where there is one.
    #[must_use]
    pub fn includes(&self, architecture: &Architecture) -> bool {
        self.family.fault::<Outside>(architecture).is_none()
    }
}
