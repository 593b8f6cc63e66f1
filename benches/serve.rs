//! Compares the speed of the service with that of the library, in one run: `cargo bench --bench
//! serve [-- BUNDLE.vtb]`. Server and clients share this machine's processors. The default is the
//! shipped bundle of ONNX Runtime on one thread. The last column is the service's rate over that of
//! the library's tables on as many threads as there are processors.

use std::{
    error::Error,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    path::PathBuf,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};
use vitempo::{
    graph::LatencyModel, predictors::PredictorBundle, query::Tables, search_space::Space,
};
use vitempo_serve::{Limits, Log, Options, Server};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Distinct architectures asked for.
const ENCODINGS: usize = 4000;
/// How long each row is measured.
const LONG: Duration = Duration::from_secs(5);

fn main() -> Outcome<()> {
    let named = std::env::args().skip(1).find(|argument| !argument.starts_with("--"));
    let bundle = PathBuf::from(named.unwrap_or_else(|| {
        concat!(env!("CARGO_MANIFEST_DIR"), "/../bundles/epyc-onnxruntime-f32-1t.vtb").to_owned()
    }));
    let space = Space::named("hybrid-vit")?;
    let encodings: Vec<String> =
        space.sample_many(ENCODINGS, 7)?.iter().map(|a| a.encode()).collect();
    let loaded = PredictorBundle::load(&bundle)?;
    println!(
        "{}, {} processors\n",
        loaded.environment.describe(),
        thread::available_parallelism()?
    );
    println!(
        "{:<36} {:>14} {:>10} {:>10} {:>10} {:>10}",
        "", "encodings/s", "requests/s", "p50, ms", "p99, ms", "x library"
    );
    one_by_one(&loaded, &space, &encodings)?;
    let mut best = 0.0;
    for (name, ask) in [("one by one", one_by_one as Library), ("tables", with_tables as Library)] {
        for threads in [1, thread::available_parallelism()?.get()] {
            best = on_threads(threads, || ask(&loaded, &space, &encodings))?;
            println!("{:<36} {best:>14.0}", format!("library, {name}, {threads} threads"));
        }
    }
    let address = start(bundle, space)?;
    client(address, &encodings, 1000, Duration::from_secs(1))?;
    for (clients, batch) in [(1, 1), (4, 1), (16, 1), (1, 100), (4, 100), (4, 1000), (16, 1000)] {
        saturate(address, &encodings, clients, batch, best)?;
    }
    Ok(())
}

/// A way to ask the library: encodings a second on this thread.
type Library = fn(&PredictorBundle, &Space, &[String]) -> Outcome<f64>;

/// What so many threads reach together.
fn on_threads(threads: usize, ask: impl Fn() -> Outcome<f64> + Sync) -> Outcome<f64> {
    thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(&ask)).collect();
        running.into_iter().map(|run| run.join().map_err(|_| "a thread panicked")?).sum()
    })
}

/// Each by its graph.
fn one_by_one(bundle: &PredictorBundle, space: &Space, encodings: &[String]) -> Outcome<f64> {
    let begun = Instant::now();
    let mut done = 0;
    for encoding in encodings.iter().cycle() {
        std::hint::black_box(bundle.predict(&space.decode(encoding)?.to_graph()?)?);
        done += 1;
        if done % 64 == 0 && begun.elapsed() > LONG {
            break;
        }
    }
    Ok(f64::from(done) / begun.elapsed().as_secs_f64())
}

/// By tables that are there.
fn with_tables(bundle: &PredictorBundle, space: &Space, encodings: &[String]) -> Outcome<f64> {
    let mut tables = Tables::of(space, bundle);
    tables.predict_encodings(encodings)?;
    let (begun, mut done) = (Instant::now(), 0);
    while begun.elapsed() < LONG {
        std::hint::black_box(tables.predict_encodings(encodings)?);
        done += encodings.len();
    }
    Ok(done as f64 / begun.elapsed().as_secs_f64())
}

/// A server that answers until the program ends.
fn start(bundle: PathBuf, space: Space) -> Outcome<SocketAddr> {
    let (sender, receiver) = mpsc::channel();
    let options = Options {
        model: None,
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        bundles: vec![bundle.into()],
        spaces: vec![space],
        token: None,
        limits: Limits::default(),
        log: Log::Nothing,
    };
    thread::spawn(move || -> Outcome<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(async {
            let server = Server::bind(options).await?;
            sender.send(server.address()?)?;
            server.run(std::future::pending()).await;
            Ok(())
        })
    });
    Ok(receiver.recv()?)
}

/// So many clients ask as fast as they are answered, each for `batch` encodings at a time.
fn saturate(
    address: SocketAddr,
    encodings: &[String],
    clients: usize,
    batch: usize,
    library: f64,
) -> Outcome<()> {
    client(address, &encodings[..batch.min(encodings.len())], batch, Duration::ZERO)?;
    let begun = Instant::now();
    let waits = thread::scope(|scope| {
        let ask = |number: usize| {
            let from = number * encodings.len() / clients;
            let own: Vec<String> =
                encodings.iter().cycle().skip(from).take(encodings.len()).cloned().collect();
            scope.spawn(move || client(address, &own, batch, LONG))
        };
        let running: Vec<_> = (0..clients).map(ask).collect();
        let mut waits = Vec::new();
        for run in running {
            waits.extend(run.join().map_err(|_| "a client panicked")??);
        }
        Outcome::Ok(waits)
    })?;
    let seconds = begun.elapsed().as_secs_f64();
    let mut ms: Vec<f64> = waits.iter().map(|wait| wait.as_secs_f64() * 1e3).collect();
    ms.sort_by(f64::total_cmp);
    let quantile = |share: f64| {
        ms.get(((ms.len() as f64 * share) as usize).min(ms.len() - 1)).copied().unwrap_or(f64::NAN)
    };
    let (requests, name) =
        (ms.len() as f64 / seconds, format!("service, {clients} clients, {batch} a request"));
    let rate = requests * batch as f64;
    println!(
        "{name:<36} {rate:>14.0} {requests:>10.0} {:>10.2} {:>10.2} {:>10.3}",
        quantile(0.5),
        quantile(0.99),
        rate / library
    );
    Ok(())
}

/// One connection; how long each answer took. At least one request is made.
fn client(
    address: SocketAddr,
    encodings: &[String],
    batch: usize,
    long: Duration,
) -> Outcome<Vec<Duration>> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let (begun, mut waits) = (Instant::now(), Vec::new());
    for chunk in encodings.chunks(batch).cycle() {
        let body = serde_json::json!({"encodings": chunk}).to_string();
        let asked = Instant::now();
        let head = format!(
            "POST /predict HTTP/1.1\r\nHost: bench\r\nContent-Type: \
            application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all((head + &body).as_bytes())?;
        answer(&mut reader)?;
        waits.push(asked.elapsed());
        if begun.elapsed() >= long {
            break;
        }
    }
    Ok(waits)
}

fn answer(reader: &mut BufReader<TcpStream>) -> Outcome<()> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    if !line.starts_with("HTTP/1.1 200") {
        return Err(line.into());
    }
    let mut length = 0;
    while line != "\r\n" {
        line.clear();
        reader.read_line(&mut line)?;
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(())
}
