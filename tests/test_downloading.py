"""Fetching the files of public corpora, from a server of our own on this machine."""

import hashlib
import http.server
import io
import os
import signal
import socket
import tarfile
import threading
import urllib.request

import pytest

from augless import corpora
from augless.cli import main
from augless.corpora import downloading
from augless.corpora.downloading import Remote, Unreachable, download


@pytest.fixture(autouse=True)
def handlers():
    """Put back what the command line does with a signal."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def site(monkeypatch):
    """Yield (files to serve, address, paths asked for); a tuple is (bytes, length it claims)."""
    served, asked = {}, []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            content = served.get(self.path)
            if content is None:
                self.send_error(404)
                return
            content, length = content if isinstance(content, tuple) else (content, len(content))
            self.send_response(200)
            self.send_header("Content-Length", str(length))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(urllib.request, "_opener", None)  # it remembers proxies
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield served, f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def packed(files):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()


def test_a_file_is_fetched_once(site, tmp_path):
    served, address, asked = site
    served["/a.en"] = b"one\ntwo\n"
    remotes = (Remote(addresses={f"{address}/a.en": sha256(b"one\ntwo\n")}, files=("a.en",)),)
    said = []
    assert download(remotes, tmp_path / "new", lambda *s: said.append(s)) == [
        tmp_path / "new" / "a.en"
    ]
    assert (tmp_path / "new" / "a.en").read_bytes() == b"one\ntwo\n"
    assert said[-1] == ("downloading a.en", 8, 8)
    assert download(remotes, tmp_path / "new") == []
    assert asked == ["/a.en"]


def test_an_archive_gives_up_the_named_files_only(site, tmp_path):
    served, address, _ = site
    content = packed({"./t.de": b"eins\n", "../evil": b"x", "/tmp/evil": b"x", "t.en": b"one\n"})
    served["/t.tar.gz"] = content
    remote = Remote(addresses={f"{address}/t.tar.gz": sha256(content)}, files=("t.de", "t.en"))
    download((remote,), tmp_path / "a" / "b")
    assert sorted(p.name for p in (tmp_path / "a" / "b").iterdir()) == ["t.de", "t.en"]
    assert sorted(p.name for p in (tmp_path / "a").iterdir()) == ["b"]
    assert (tmp_path / "a" / "b" / "t.de").read_bytes() == b"eins\n"


def test_a_file_that_is_there_is_compared_and_left_alone(site, tmp_path):
    served, address, _ = site
    content = packed({"t.de": b"eins\n", "t.en": b"one\n"})
    served["/t.tar.gz"] = content
    served["/u"] = b"two\n"
    archive = Remote(addresses={f"{address}/t.tar.gz": sha256(content)}, files=("t.de", "t.en"))
    plain = Remote(addresses={f"{address}/u": sha256(b"two\n")}, files=("u",))
    for remote, name, right in ((archive, "t.de", b"eins\n"), (plain, "u", b"two\n")):
        (tmp_path / name).write_bytes(b"mine\n")
        with pytest.raises(corpora.BadData, match=rf"{name} is another file.*\n.*move it away"):
            download((remote,), tmp_path)
        assert (tmp_path / name).read_bytes() == b"mine\n"
        (tmp_path / name).write_bytes(right)
    assert download((archive, plain), tmp_path) == [tmp_path / "t.en"]
    assert download((archive, plain), tmp_path) == []


@pytest.mark.parametrize("length", ["\xb2", "x", "-1", "9" * 5000])
def test_a_length_that_is_no_number_does_not_matter(site, tmp_path, length):
    served, address, _ = site
    served["/x"] = (b"right", length)
    remote = Remote(addresses={f"{address}/x": sha256(b"right")}, files=("x",))
    assert download((remote,), tmp_path) == [tmp_path / "x"]


def test_a_link_that_was_planted_is_not_written_through(site, tmp_path):
    served, address, _ = site
    served["/x"] = b"right"
    (tmp_path / "victim").write_text("victim")
    folder = tmp_path / "folder"
    folder.mkdir()
    for number in (os.getpid(), os.getpid() + 1):
        (folder / f".x.{number}").symlink_to("../victim")
    remote = Remote(addresses={f"{address}/x": sha256(b"right")}, files=("x",))
    assert download((remote,), folder) == [folder / "x"]
    assert (tmp_path / "victim").read_text() == "victim"


def test_the_next_address_stands_in(site, tmp_path):
    served, address, asked = site
    served["/second"] = b"wrong"
    served["/third"] = b"right"
    wanted = sha256(b"right")
    addresses = {f"{address}/{n}": wanted for n in ("first", "second", "third")}
    download((Remote(addresses=addresses, files=("x",)),), tmp_path)
    assert (tmp_path / "x").read_bytes() == b"right"
    assert asked == ["/first", "/second", "/third"]


@pytest.mark.parametrize("case", ["404", "another file", "broken", "refused", "no host", "silent"])
def test_what_cannot_be_had_is_said_and_leaves_nothing(site, tmp_path, case, monkeypatch):
    served, address, _ = site
    served["/x"] = (b"half", 8) if case == "broken" else b"half"
    wanted = sha256(b"halfhalf")
    listener = socket.create_server(("127.0.0.1", 0))  # accepts and never answers
    port = listener.getsockname()[1]
    if case == "silent":
        monkeypatch.setattr(downloading, "TIMEOUT", 0.2)
    else:
        listener.close()
    place = {
        "404": f"{address}/absent",
        "refused": f"http://127.0.0.1:{port}/x",
        "silent": f"http://127.0.0.1:{port}/x",
        "no host": "http://host.invalid/x",
    }.get(case, f"{address}/x")
    reason = {
        "404": "Not Found",
        "another file": "SHA-256 differs",
        "broken": "bytes",
        "refused": "refused",
        "silent": "timed out",
        "no host": "host.invalid",
    }[case]
    folder = tmp_path / "here"
    with pytest.raises(Unreachable) as error:
        download((Remote(addresses={place: wanted}, files=("x",)),), folder)
    listener.close()
    first, second = str(error.value).splitlines()
    assert place in first
    assert reason in first
    assert str(folder) in second
    assert not folder.exists()


def test_a_file_that_never_ends_is_refused(site, tmp_path, monkeypatch):
    served, address, _ = site
    served["/x"] = b"x" * 300_000
    monkeypatch.setattr(downloading, "LARGEST", 100_000)
    with pytest.raises(Unreachable, match="more than 100,000 bytes"):
        download((Remote(addresses={f"{address}/x": "0" * 64}, files=("x",)),), tmp_path)


def test_an_archive_without_the_file_is_bad_data(site, tmp_path):
    served, address, _ = site
    content = packed({"other": b"x"})
    served["/t.tgz"] = content
    remote = Remote(addresses={f"{address}/t.tgz": sha256(content)}, files=("t.de",))
    with pytest.raises(corpora.BadData, match=r"holds no t\.de"):
        download((remote,), tmp_path)


@pytest.mark.parametrize("name", ["iwslt15-en-vi", "multi30k"])
def test_what_is_fetched_is_what_the_corpus_reads(name, tmp_path):
    corpus = corpora.CORPORA[name](path=tmp_path)
    fetched = {file for remote in corpus.remotes for file in remote.files}
    for file in fetched:
        (tmp_path / file).write_text("x\n")
    assert {path.name for path in corpus.inputs()} == fetched
    digests = [digest for remote in corpus.remotes for digest in remote.addresses.values()]
    assert all(len(bytes.fromhex(digest)) == 32 for digest in digests)


@pytest.mark.parametrize("stems", [("train", "val", "test_2016_flickr"), ("train", "valid")])
def test_files_under_other_names_are_not_doubled(stems, tmp_path, site):
    corpus = corpora.CORPORA["multi30k"](path=tmp_path)
    for stem in stems:
        for side in ("de", "en"):
            (tmp_path / f"{stem}.{side}.gz").write_bytes(b"")
    before = sorted(tmp_path.iterdir())
    if len(stems) == 3:
        assert corpus.download() == []
    else:
        with pytest.raises(corpora.BadData, match="is here already, under another name"):
            corpus.download()
    assert sorted(tmp_path.iterdir()) == before


def test_a_download_that_broke_off_goes_on(site, tmp_path, monkeypatch):
    served, address, _ = site
    names = [f"{stem}.{side}" for stem in ("train", "tst2012", "tst2013") for side in ("en", "vi")]
    remotes = [Remote(addresses={f"{address}/{n}": sha256(b"x\n")}, files=(n,)) for n in names]
    kind = corpora.CORPORA["iwslt15-en-vi"]
    monkeypatch.setattr(kind, "remotes", tuple(remotes))
    served |= {f"/{name}": b"x\n" for name in names[:3]}
    with pytest.raises(Unreachable):
        kind(path=tmp_path).download()
    served |= {f"/{name}": b"x\n" for name in names}
    assert [path.name for path in kind(path=tmp_path).download()] == names[3:]


def test_the_verb_fetches_and_prepares(site, tmp_path, monkeypatch, capsys):
    served, address, asked = site
    remotes = []
    for stem in ("train", "tst2012", "tst2013"):
        for side in ("en", "vi"):
            content = b"a small house\n" * 40
            served[f"/{stem}.{side}"] = content
            where = {f"{address}/{stem}.{side}": sha256(content)}
            remotes.append(Remote(addresses=where, files=(f"{stem}.{side}",)))
    kind = corpora.CORPORA["iwslt15-en-vi"]
    monkeypatch.setattr(kind, "remotes", tuple(remotes))
    verb = ["augless", "prepare", "iwslt15-en-vi", f"corpus.path={tmp_path / 'raw'}"]
    verb += ["--out", str(tmp_path / "data")]
    monkeypatch.setattr("sys.argv", verb)
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 3
    assert "--download" in capsys.readouterr().err
    assert asked == []  # nothing is fetched that was not asked for
    monkeypatch.setattr("sys.argv", [*verb, "--download"])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 0
    assert "40" in capsys.readouterr().out
    assert len(asked) == 6


@pytest.mark.parametrize(
    ("recipe", "languages", "code", "said"),
    [
        ("toy-de-en", "de,en", 2, "nothing to fetch"),
        ("iwslt14", "it,en", 3, "no checksum of these files is known for 'it' and 'en'"),
        ("multi30k", "fr,en", 3, "no checksum of these files is known for 'fr'"),
    ],
)
def test_what_has_no_address_says_so(recipe, languages, code, said, tmp_path, monkeypatch, capsys):
    keys = [] if recipe.startswith("toy") else [f"corpus.path={tmp_path}"]
    keys.append(f"corpus.languages={languages}")
    monkeypatch.setattr("sys.argv", ["augless", "prepare", recipe, *keys, "--download"])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == code
    assert said in capsys.readouterr().err
