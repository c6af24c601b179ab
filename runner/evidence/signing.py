"""SSH signatures by the real `ssh-keygen -Y`, and the key that makes them.

The user's key is named by SIGNING_KEY (a private key, or a public key whose private half an agent
holds). Without it a local test key is made in a folder of the user's, outside every campaign, because
campaign folders are handed on: it proves that the files belong together, never who made them. Each
purpose has its own namespace, so that a signature made for one thing never passes for another.
"""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from runner.errors import InputRefused, show_text
from runner.evidence.campaign import Campaign
from runner.evidence.files import write_atomic
from runner.evidence.sshsig import NotCanonical, SshSignature, parse_signature

KEY_VARIABLE = "SIGNING_KEY"
LOCAL_KEY_NAME = "local-test-key"
LOCAL_KEY_COMMENT = "local test key"
DATA_VARIABLE = "XDG_DATA_HOME"
_TIMEOUT_SECONDS = 120  # a hardware key may wait for a touch


class Purpose(StrEnum):
    """What a signature is for: the namespace that ssh-keygen checks."""

    LOCK = "lock@gpu-decision-note"
    NOTE = "note@gpu-decision-note"
    PDF = "pdf@gpu-decision-note"
    BAG = "bag@gpu-decision-note"
    STATEMENT = "statement@gpu-decision-note"


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A key that signed a probe. `public_key` is one line as in `id_ed25519.pub`, without comment."""

    path: Path
    public_key: str
    fingerprint: str
    local_test: bool

    @property
    def kind(self) -> str:
        return self.public_key.split(" ", 1)[0]

    @property
    def label(self) -> str:
        """How the key is called wherever it is shown."""
        return f"{LOCAL_KEY_COMMENT} {self.fingerprint}" if self.local_test else self.fingerprint


@dataclass(frozen=True, slots=True)
class SignatureCheck:
    """`valid`: the signature fits the bytes. `signer`: who the signers file says it is, if one was given."""

    valid: bool
    signer: str | None
    fingerprint: str | None
    reason: str


def signing_key(campaign: Campaign, environ: Mapping[str, str] = os.environ) -> SigningKey:
    """The key to sign with: the user's, else the local test key, made on first use. Refuses what cannot sign."""
    named = environ.get(KEY_VARIABLE, "")
    if named:
        return _probe(Path(named).expanduser(), local_test=False)
    path = local_keys() / LOCAL_KEY_NAME
    if not path.exists():
        _make_local_key(path)
    return _probe(path, local_test=True)


def local_keys() -> Path:
    """Where this user's local test keys lie: never in a campaign, which is copied and handed on as a whole."""
    named = os.environ.get(DATA_VARIABLE, "")
    if Path(named).is_absolute():
        return Path(named) / "gpu-decision-note" / "keys"
    try:
        return Path.home() / ".local" / "share" / "gpu-decision-note" / "keys"
    except RuntimeError:
        raise _no_place("this user has no home folder") from None


def known_key(campaign: Campaign, environ: Mapping[str, str] = os.environ) -> SigningKey | None:
    """The key that would sign, or None if a local test key would have to be made first."""
    if environ.get(KEY_VARIABLE) or (local_keys() / LOCAL_KEY_NAME).exists():
        return signing_key(campaign, environ)
    return None


def sign(data: bytes, key: SigningKey, purpose: Purpose) -> bytes:
    """Armored signature over the exact bytes, in canonical form; write it beside the file as `.sig`."""
    armored, signature = _sign(data, key.path, purpose)
    if signature.fingerprint != key.fingerprint:
        raise InputRefused(
            "the signing key changed while it was in use",
            file=key.path,
            next_step="run the command again",
        )
    return armored


def sign_file(path: Path, campaign: Campaign, purpose: Purpose, environ: Mapping[str, str] = os.environ) -> SigningKey:
    """Sign the file as it lies there, into `<path>.sig`; tells which key signed."""
    key = signing_key(campaign, environ)
    write_atomic(path.with_name(path.name + ".sig"), sign(path.read_bytes(), key, purpose))
    return key


def check_signature(data: bytes, signature: bytes, purpose: Purpose, signers: Path | None = None) -> SignatureCheck:
    """Check container, namespace and signature over `data`; with `signers` also who signed.

    `signers` is an OpenSSH allowed_signers file. Without it a valid signature proves only that the
    bytes are those that the holder of the key signed.
    """
    try:
        parsed = parse_signature(signature)
    except NotCanonical as error:
        return SignatureCheck(False, None, None, str(error))
    fingerprint = parsed.fingerprint
    if parsed.namespace != purpose:
        reason = f"the signature was made for another purpose ({parsed.namespace!r} instead of {purpose.value!r})"
        return SignatureCheck(False, None, fingerprint, reason)
    with tempfile.TemporaryDirectory(prefix="runner-signature-") as folder:
        file = Path(folder) / "signature"
        file.write_bytes(signature)
        done = _ssh_keygen("-Y", "check-novalidate", "-n", purpose.value, "-s", str(file), stdin=data)
        if done.returncode != 0:
            return SignatureCheck(False, None, fingerprint, "the signature does not fit the signed bytes")
        if signers is None:
            return SignatureCheck(True, None, fingerprint, "fits the bytes; who signed was not checked")
        public_key = base64.b64encode(parsed.public_key).decode("ascii")
        return _check_signer(data, file, purpose, signers, fingerprint, public_key)


def read_signers(path: Path) -> tuple[str, ...]:
    """Lines of a signers file that name somebody; refused when missing, unreadable or empty."""
    try:
        text = path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputRefused(
            f"the signers file cannot be read: {getattr(error, 'strerror', None) or error}",
            file=path,
            next_step="give an OpenSSH allowed_signers file: one line per signer, name, key type, key",
        ) from None
    # Lines as ssh-keygen sees them: a form feed or a Unicode line separator in a comment begins no new one.
    lines = tuple(line.strip(" \t\r") for line in text.split("\n"))
    lines = tuple(line for line in lines if line and not line.startswith("#"))
    if not lines:
        raise InputRefused(
            "the signers file names nobody",
            file=path,
            next_step="write one line for each signer: name, kind of key, public key",
        )
    return lines


def _check_signer(
    data: bytes, file: Path, purpose: Purpose, signers: Path, fingerprint: str, public_key: str
) -> SignatureCheck:
    """Ask ssh-keygen who of the signers file signed, and whether they may for this purpose now.

    It looks at the first line with the key only; one key may stand under several names, not each of them
    allowed to sign this, so it is asked line by line.
    """
    lines = read_signers(signers)
    refusal = "the signer is not in the signers file"
    for line in [line for line in lines if public_key in line] or ["\n".join(lines)]:
        allowed = file.with_name("signers")
        allowed.write_text(line + "\n", encoding="utf-8")
        found = _ssh_keygen("-Y", "find-principals", "-s", str(file), "-f", str(allowed), stdin=b"")
        listed = found.stdout.decode("utf-8", "replace").splitlines() if found.returncode == 0 else []
        # `!name` in a list of patterns says who it is not: it names no signer.
        names = [name for name in listed if not name.startswith("!")]
        if listed and not names:
            refusal = "the signers file names this key, but its line only says who is not meant (!)"
        if not listed and public_key in line:
            refusal = "the signers file names this key, but on a line that does not hold now (its dates or options)"
        for name in names:
            done = _ssh_keygen(
                "-Y", "verify", "-f", str(allowed), "-I", name, "-n", purpose.value, "-s", str(file), stdin=data
            )
            if done.returncode == 0:
                # `*` says who may sign, not who did.
                shown = f"somebody who matches {show_text(name)}" if set("*?") & set(name) else show_text(name)
                return SignatureCheck(True, shown, fingerprint, f"signed by {shown}")
            reason = _last_line(done).removeprefix(f"{allowed}:1: ")
            refusal = f"the signers file does not allow this: {show_text(reason)}"
    return SignatureCheck(False, None, fingerprint, refusal)


@contextmanager
def new_key_file(path: Path) -> Iterator[Path]:
    """A place, in a folder that only the owner may enter, to make a local key, which then goes to `path` as a whole.

    Never over an existing one: if another process was faster, its key stays. A `.pub` beside it goes along.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.parent.chmod(0o700)
    except OSError as error:
        raise _no_place(f"{path.parent}: {error.strerror}") from None
    with tempfile.TemporaryDirectory(prefix=".new-key-", dir=path.parent) as folder:
        made = Path(folder) / path.name
        yield made
        made.chmod(0o600)
        try:
            os.link(made, path)
        except FileExistsError:
            return
        public = made.with_name(made.name + ".pub")
        if public.exists():
            public.replace(path.with_name(public.name))


def _no_place(why: str) -> InputRefused:
    return InputRefused(
        f"a local test key has no place to be kept ({why})",
        next_step=f"set {KEY_VARIABLE} to a key of yours, or {DATA_VARIABLE} to a folder that only you can read",
    )


def _make_local_key(path: Path) -> None:
    """An Ed25519 key without passphrase, readable by its owner only; never over an existing one."""
    with new_key_file(path) as made:
        done = _ssh_keygen("-q", "-t", "ed25519", "-N", "", "-C", LOCAL_KEY_COMMENT, "-f", str(made), stdin=b"")
        if done.returncode != 0:
            raise InputRefused(
                f"a local test key could not be made: {_last_line(done)}",
                file=path,
                next_step="check that ssh-keygen runs and that the folder may be written",
            )


def public_half(private: bytes) -> str | None:
    """`type base64` of a private SSH key without passphrase; None for anything else."""
    with tempfile.TemporaryDirectory(prefix="runner-key-") as folder:
        place = Path(folder) / "key"
        place.touch(mode=0o600)  # ssh-keygen reads no key that others may read
        place.write_bytes(private)
        done = _ssh_keygen("-y", "-P", "", "-f", str(place), stdin=b"")
    return " ".join(done.stdout.decode("utf-8", "replace").split()[:2]) if done.returncode == 0 else None


def _probe(path: Path, *, local_test: bool) -> SigningKey:
    """Sign a probe: shows in one step that the key is there, readable, unlocked and of a known kind."""
    if not path.is_file():
        raise InputRefused(
            "the signing key does not exist" if not path.exists() else "the signing key is not a file",
            file=path,
            next_step=f"set {KEY_VARIABLE} to a private SSH key, or unset it to use a local test key",
        )
    _, signature = _sign(b"probe", path, Purpose.STATEMENT)
    public_key = f"{signature.kind} {base64.b64encode(signature.public_key).decode('ascii')}"
    return SigningKey(path, public_key, signature.fingerprint, local_test)


def _sign(data: bytes, path: Path, purpose: Purpose) -> tuple[bytes, SshSignature]:
    done = _ssh_keygen("-Y", "sign", "-f", str(path.resolve()), "-n", purpose.value, stdin=data)
    if done.returncode != 0:
        raise _signing_refused(path, done)
    try:
        return done.stdout, parse_signature(done.stdout)
    except NotCanonical as error:
        raise InputRefused(
            f"ssh-keygen wrote a signature of an unknown form: {error}",
            file=path,
            next_step="check the version of OpenSSH (ssh -V; 8.9 or newer)",
        ) from None


def _signing_refused(path: Path, done: subprocess.CompletedProcess[bytes]) -> InputRefused:
    message = done.stderr.decode("utf-8", "replace")
    if path.suffix == ".pub":  # whatever ssh-keygen says of it: an agent holds private keys only
        private = path.with_suffix("")
        there = f"set {KEY_VARIABLE}={private}, or load it with `ssh-add {private}`"
        return InputRefused(
            "this is a public key, and no agent holds its private half",
            file=path,
            next_step=there if private.is_file() else f"set {KEY_VARIABLE} to the private key that belongs to it",
        )
    if "incorrect passphrase" in message:
        return InputRefused(
            "the signing key needs a passphrase and no agent holds it",
            file=path,
            next_step=f"load it with `ssh-add {path}` and run the same command again",
        )
    if "too open" in message:
        return InputRefused(
            "others may read the signing key, so ssh-keygen does not use it",
            file=path,
            next_step=f"chmod 600 {path}",
        )
    if "unknown option" in message:
        return InputRefused(
            "ssh-keygen is too old to sign files", next_step="install OpenSSH 8.2 or newer (package openssh-client)"
        )
    return InputRefused(
        "not an SSH private key that can sign",
        file=path,
        next_step=f"set {KEY_VARIABLE} to an OpenSSH private key (ssh-keygen -t ed25519 makes one)",
        details=(_last_line(done),),
    )


def _ssh_keygen(*arguments: str, stdin: bytes) -> subprocess.CompletedProcess[bytes]:
    """Run ssh-keygen without a terminal, so that it can never wait for a passphrase."""
    program = shutil.which("ssh-keygen")
    if program is None:
        raise InputRefused(
            "ssh-keygen is not installed: signatures can be neither made nor checked",
            next_step="apt-get install openssh-client",
        )
    environment: dict[str, str] = {**os.environ, "LC_ALL": "C", "SSH_ASKPASS_REQUIRE": "never"}
    command: Sequence[str] = (program, *arguments)
    try:
        return subprocess.run(
            command,
            input=stdin,
            capture_output=True,
            env=environment,
            start_new_session=True,
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise InputRefused(
            f"ssh-keygen did not answer within {_TIMEOUT_SECONDS} seconds",
            next_step="check that the key asks for nothing (ssh-add), then run the command again",
        ) from None


def _last_line(done: subprocess.CompletedProcess[bytes]) -> str:
    lines = [line for line in done.stderr.decode("utf-8", "replace").splitlines() if line.strip()]
    return lines[-1] if lines else f"ssh-keygen ended with status {done.returncode}"
