//! Which wheels an engine is installed from: file, size and SHA-256 of each, by platform, and which
//! of its files are needed.
//!
//! To move an engine to another version, download its wheels with pip, write down `sha256sum` and
//! size here, and run the conformance suite.

/// An engine that can be installed.
#[derive(Clone, Copy, Debug)]
pub struct Engine<'a> {
    /// Its name on the command line.
    pub name: &'a str,
    /// Version of the wheel that has the library.
    pub version: &'a str,
    /// The library that must exist after installation; `*` matches any text.
    pub library: &'a str,
    /// Other files to unpack; licences always are.
    pub keep: &'a [&'a str],
    /// Notes for users on its licence.
    pub notice: Option<&'a str>,
    /// Where there are wheels.
    pub platforms: &'a [Platform<'a>],
}

/// The wheels for one kind of machine.
#[derive(Clone, Copy, Debug)]
pub struct Platform<'a> {
    /// As in [`std::env::consts::OS`].
    pub os: &'a str,
    /// As in [`std::env::consts::ARCH`].
    pub arch: &'a str,
    /// All of them are needed.
    pub wheels: &'a [Wheel<'a>],
}

/// One wheel; its name determines pip's arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wheel<'a> {
    /// `distribution-version(-build)-python-abi-platform.whl`.
    pub file: &'a str,
    /// Its size.
    pub size_bytes: u64,
    /// Its digest in lower-case hexadecimals.
    pub sha256: &'a str,
}

const LINUX: &str = "linux";

/// Every engine that can be installed.
pub const ENGINES: &[Engine<'static>] = &[
    Engine {
        name: "onnxruntime",
        version: "1.31.1",
        library: "onnxruntime/capi/libonnxruntime.so*",
        keep: &[],
        notice: None,
        platforms: &[
            Platform {
                os: LINUX,
                arch: "x86_64",
                wheels: &[Wheel {
                    file: "onnxruntime-1.31.1-cp311-cp311-manylinux_2_28_x86_64.whl",
                    size_bytes: 23_753_652,
                    sha256: "5752bd508126ae7c49894d3b9d2e83f0c3d487319246d04c444b393308d7ad7f",
                }],
            },
            Platform {
                os: LINUX,
                arch: "aarch64",
                wheels: &[Wheel {
                    file: "onnxruntime-1.31.1-cp311-cp311-manylinux_2_28_aarch64.whl",
                    size_bytes: 21_413_526,
                    sha256: "da05378364c44d4407e463982d2bf8d5e4cfea873283757e48beeb41df97b7f3",
                }],
            },
        ],
    },
    Engine {
        name: "openvino",
        version: "2026.4.1",
        library: "openvino/libs/libopenvino_c.so*",
        keep: &[
            "openvino/libs/libopenvino.so*",
            "openvino/libs/libopenvino_onnx_frontend.so*",
            "openvino/libs/libopenvino_ir_frontend.so*",
            "openvino/libs/libopenvino_*_cpu_plugin.so",
            "openvino/libs/libopenvino_intel_gpu_plugin.so",
            "openvino/libs/libopenvino_intel_npu*.so",
            "openvino/libs/libtbb*",
            "openvino/libs/libhwloc*",
            "openvino/libs/cache.json",
        ],
        notice: None,
        platforms: &[
            Platform {
                os: LINUX,
                arch: "x86_64",
                wheels: &[Wheel {
                    file: "openvino-2026.4.1-22982-cp311-cp311-manylinux_2_28_x86_64.whl",
                    size_bytes: 59_130_756,
                    sha256: "2d22b1da03f7caf74df30e9f6417d0ab2f637e4a38e08e1dcd294d2c37407aaf",
                }],
            },
            Platform {
                os: LINUX,
                arch: "aarch64",
                wheels: &[Wheel {
                    file: "openvino-2026.4.1-22982-cp311-cp311-manylinux_2_35_aarch64.whl",
                    size_bytes: 30_348_540,
                    sha256: "bea1eb3733c34ef331adc945da0ccda5937865031139073663be84c517ffda22",
                }],
            },
        ],
    },
    Engine {
        name: "litert",
        version: "2.3.0",
        library: "ai_edge_litert/libLiteRt.so",
        keep: &["ai_edge_litert/libLiteRtWebGpuAccelerator.so"],
        notice: None,
        platforms: &[
            Platform {
                os: LINUX,
                arch: "x86_64",
                wheels: &[Wheel {
                    file: "ai_edge_litert-2.3.0-cp311-cp311-manylinux_2_27_x86_64.whl",
                    size_bytes: 21_778_233,
                    sha256: "1f15078a6725d2357d9de9221664c29afa0545d807559c5f7199ce5e40b96b23",
                }],
            },
            Platform {
                os: LINUX,
                arch: "aarch64",
                wheels: &[Wheel {
                    file: "ai_edge_litert-2.3.0-cp311-cp311-manylinux_2_27_aarch64.whl",
                    size_bytes: 14_379_387,
                    sha256: "853fc608f96da87bd5f3458465dfb9abbf18d5ae6b94eceacead407146f175ae",
                }],
            },
        ],
    },
    Engine {
        name: "torch",
        version: "2.11.0",
        library: "torch/lib/libtorch_cpu.so",
        keep: &[
            "torch/lib/libc10.so",
            "torch/lib/libgomp.so*",
            "torch/lib/libarm_compute*",
            "torch/lib/libgfortran.so*",
            "torch/lib/libnvpl_*",
            "nvidia/cu13/lib/libcudart.so*",
            "nvidia/cu13/lib/libcupti.so*",
        ],
        notice: Some(
            "libcudart and libcupti, which libtorch_cpu opens, are under NVIDIA's licence",
        ),
        platforms: &[
            Platform {
                os: LINUX,
                arch: "x86_64",
                wheels: &[
                    Wheel {
                        file: "torch-2.11.0-cp311-cp311-manylinux_2_28_x86_64.whl",
                        size_bytes: 530_604_548,
                        sha256: "7aa2f9bbc6d4595ba72138026b2074be1233186150e9292865e04b7a63b8c67a",
                    },
                    Wheel {
                        file: "nvidia_cuda_runtime-13.0.96-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl",
                        size_bytes: 2_243_632,
                        sha256: "7f82250d7782aa23b6cfe765ecc7db554bd3c2870c43f3d1821f1d18aebf0548",
                    },
                    Wheel {
                        file: "nvidia_cuda_cupti-13.0.85-py3-none-manylinux_2_25_x86_64.whl",
                        size_bytes: 10_715_597,
                        sha256: "4eb01c08e859bf924d222250d2e8f8b8ff6d3db4721288cf35d14252a4d933c8",
                    },
                ],
            },
            Platform {
                os: LINUX,
                arch: "aarch64",
                wheels: &[
                    Wheel {
                        file: "torch-2.11.0-cp311-cp311-manylinux_2_28_aarch64.whl",
                        size_bytes: 419_718_178,
                        sha256: "d91aac77f24082809d2c5a93f52a5f085032740a1ebc9252a7b052ef5a4fddc6",
                    },
                    Wheel {
                        file: "nvidia_cuda_runtime-13.0.96-py3-none-manylinux2014_aarch64.manylinux_2_17_aarch64.whl",
                        size_bytes: 2_261_060,
                        sha256: "ef9bcbe90493a2b9d810e43d249adb3d02e98dd30200d86607d8d02687c43f55",
                    },
                    Wheel {
                        file: "nvidia_cuda_cupti-13.0.85-py3-none-manylinux_2_25_aarch64.whl",
                        size_bytes: 10_310_827,
                        sha256: "796bd679890ee55fb14a94629b698b6db54bcfd833d391d5e94017dd9d7d3151",
                    },
                ],
            },
        ],
    },
    Engine {
        name: "qnn",
        version: "2.7.0",
        library: "onnxruntime_qnn/libonnxruntime_providers_qnn.so",
        keep: &[
            "onnxruntime_qnn/libQnn*.so",
            "onnxruntime_qnn/libHtpPrepare.so",
            "onnxruntime_qnn.libs/*",
        ],
        notice: Some(
            "Qualcomm's licence (Qualcomm_LICENSE.pdf beside the libraries) is between you and \
            Qualcomm, and forbids passing them on; needs onnxruntime too",
        ),
        platforms: &[
            Platform {
                os: LINUX,
                arch: "x86_64",
                wheels: &[Wheel {
                    file: "onnxruntime_qnn-2.7.0-cp311-cp311-manylinux_2_35_x86_64.whl",
                    size_bytes: 98_578_793,
                    sha256: "c56c01562b8534fe8980cfea4601408d950c065f8251fb862ce82101c52c9849",
                }],
            },
            Platform {
                os: LINUX,
                arch: "aarch64",
                wheels: &[Wheel {
                    file: "onnxruntime_qnn-2.7.0-cp311-cp311-manylinux_2_34_aarch64.whl",
                    size_bytes: 86_663_272,
                    sha256: "ad08bbfebd7c07ffe83995418303215f46cb25a89e12676f47ee20c32002eaad",
                }],
            },
        ],
    },
];

impl<'a> Engine<'a> {
    /// Whether this file of a wheel is unpacked: the library, its dependencies, and every licence.
    #[must_use]
    pub fn needs(&self, path: &str) -> bool {
        matches(self.library, path)
            || self.keep.iter().any(|pattern| matches(pattern, path))
            || is_licence(path)
    }

    /// Whether this is the engine's library.
    #[must_use]
    pub fn is_library(&self, path: &str) -> bool {
        matches(self.library, path)
    }
}

impl<'a> Wheel<'a> {
    /// The parts of its name: distribution, version, python, abi, platform. `None` when the name is
    /// not a wheel's.
    #[must_use]
    pub fn tags(&self) -> Option<[&'a str; 5]> {
        let parts: Vec<&str> = self.file.strip_suffix(".whl")?.split('-').collect();
        match parts.as_slice() {
            &[distribution, version, python, abi, platform]
            | &[distribution, version, _, python, abi, platform] => {
                Some([distribution, version, python, abi, platform.split('.').next()?])
            }
            _ => None,
        }
    }
}

/// Licences, notices, and the metadata that names the version.
fn is_licence(path: &str) -> bool {
    let file = path.rsplit('/').next().unwrap_or_default().to_lowercase();
    let extension = file.rsplit_once('.').map_or("", |(_, e)| e);
    let readable = !matches!(extension, "py" | "pyi" | "so" | "h" | "hpp" | "pyc");
    (path.contains(".dist-info/") && (file == "metadata" || path.contains("/licenses/")))
        || (readable && ["license", "licence", "notice"].iter().any(|w| file.contains(w)))
}

/// `*` matches any text, also empty text and slashes.
fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, rest)) => text.strip_prefix(start).is_some_and(|tail| {
            (0..=tail.len()).any(|i| tail.is_char_boundary(i) && matches(rest, &tail[i..]))
        }),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn every_pin_is_whole() {
        for engine in ENGINES {
            assert!(
                engine.platforms.iter().any(|p| (p.os, p.arch) == ("linux", "x86_64")),
                "{}",
                engine.name
            );
            for platform in engine.platforms {
                let [_, version, ..] = platform.wheels[0].tags().unwrap();
                assert_eq!(version, engine.version, "the first wheel has the library");
                for wheel in platform.wheels {
                    let [_, _, python, _, tag] = wheel.tags().unwrap();
                    assert!(
                        tag.contains(platform.os.trim_start_matches("linux"))
                            && tag.ends_with(platform.arch),
                        "{}",
                        wheel.file
                    );
                    assert!(python.starts_with("cp3") || python == "py3", "{}", wheel.file);
                    assert!(
                        wheel.sha256.len() == 64
                            && wheel
                                .sha256
                                .chars()
                                .all(|c| c.is_ascii_digit() || ('a'..='f').contains(&c)),
                        "{}",
                        wheel.file
                    );
                }
            }
        }
    }

    #[test]
    fn names_of_wheels_are_taken_apart() {
        let wheel = |file| Wheel { file, size_bytes: 0, sha256: "" };
        let build = wheel("openvino-2026.4.1-22982-cp311-cp311-manylinux_2_28_x86_64.whl");
        assert_eq!(
            build.tags(),
            Some(["openvino", "2026.4.1", "cp311", "cp311", "manylinux_2_28_x86_64"])
        );
        let two = wheel("a_b-1.0-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl");
        assert_eq!(two.tags(), Some(["a_b", "1.0", "py3", "none", "manylinux2014_x86_64"]));
        assert_eq!(wheel("a-1.whl").tags(), None);
    }

    #[test]
    fn only_what_is_needed_is_wanted() {
        let engine = |name: &str| ENGINES.iter().find(|e| e.name == name).unwrap();
        for (name, path, wanted) in [
            ("onnxruntime", "onnxruntime/capi/libonnxruntime.so.1.31.1", true),
            (
                "onnxruntime",
                "onnxruntime/capi/onnxruntime_pybind11_state.cpython-311-x86_64-linux-gnu.so",
                false,
            ),
            ("onnxruntime", "onnxruntime/ThirdPartyNotices.txt", true),
            ("onnxruntime", "onnxruntime-1.31.1.dist-info/METADATA", true),
            ("onnxruntime", "onnxruntime-1.31.1.dist-info/RECORD", false),
            ("onnxruntime", "onnxruntime/tools/license_check.py", false),
            ("openvino", "openvino/libs/libopenvino_arm_cpu_plugin.so", true),
            ("openvino", "openvino/libs/libopenvino_pytorch_frontend.so.2641", false),
            ("torch", "torch/lib/libtorch_cuda.so", false),
            ("qnn", "onnxruntime_qnn/Qualcomm_LICENSE.pdf", true),
        ] {
            assert_eq!(engine(name).needs(path), wanted, "{path}");
        }
    }
}
