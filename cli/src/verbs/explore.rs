//! `vitempo explore`: the explorer, the page of forecasts, with a model loaded.

use super::{
    error::{CliError, CliResult, io_error},
    output, serve,
};
use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
    time::Duration,
};
use vitempo::{bundle::Selection, search_space::Space};
use vitempo_serve::{Limits, Log, Options, PageModel};

/// Opens the explorer in a browser: forecasts on every device, why, and where to cut a model
///
/// It is served on this machine until Ctrl-C, and sends nothing elsewhere.
///
/// Example: vitempo explore vit.onnx
#[derive(clap::Args, Debug)]
pub struct ExploreArgs {
    /// An ONNX or TensorFlow Lite file; weights may be absent. Without it the page asks for one
    #[arg(value_name = "MODEL")]
    pub model: Option<PathBuf>,

    /// Bundles that the page offers: names, globs over names, files, or all; may be repeated
    #[arg(long = "bundle", value_name = "NAME", default_value = "all")]
    pub bundles: Vec<PathBuf>,

    /// Port on this machine; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub port: u16,

    /// Print the address, and open no browser
    #[arg(long)]
    pub no_open: bool,

    /// Read model and bundles, say what would be served, and end
    #[arg(long)]
    pub check: bool,
}

pub fn run(args: &ExploreArgs) -> CliResult {
    let model = args.model.as_ref().map(page_model).transpose()?;
    let bundles = Selection::of(&args.bundles)?.locations().to_vec();
    let options = Options {
        listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), args.port),
        bundles,
        spaces: vec![Space::find("hybrid-vit")?],
        token: None,
        limits: Limits::default(),
        log: Log::Nothing,
        model,
    };
    if args.check {
        let served = vitempo_serve::open_registry(options.bundles).map_err(serve::explain)?;
        let page = if vitempo_serve::has_page() { "is part of" } else { "is no part of" };
        let count = served.current().len();
        return output::write_stdout(&format!("{count} bundles; the page {page} this program\n"));
    }
    if !vitempo_serve::has_page() {
        return Err(CliError::user("this program was built without the explorer").hint(
            "in a checkout, `make web` builds the page, and `make` the program with it inside",
        ));
    }
    let fragment = options.model.as_ref().map(PageModel::fragment).unwrap_or_default();
    let mut printed = Ok(());
    let open = |address| {
        let url = format!("http://{address}/{fragment}");
        printed = output::write_stdout(&format!("{url}\n"));
        if !args.no_open && open::that_detached(&url).is_err() {
            eprintln!("hint: open that address in a browser");
        }
    };
    vitempo_serve::run(options, Duration::ZERO, open).map_err(serve::explain)?;
    printed
}

/// The model's file; the page reads it, and shows why where it cannot.
fn page_model(path: &PathBuf) -> CliResult<PageModel> {
    let bytes = std::fs::read(path).map_err(|e| io_error("read", path, &e))?;
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    PageModel::new(&name, bytes).map_err(CliError::ours)
}
