# SPDX-License-Identifier: Apache-2.0
"""`ktrial bundle`: pack sessions with all their data into one file."""

from __future__ import annotations

from pathlib import Path

import click

from ktrial.cli.app import App
from ktrial.cli.completion import bundle_names
from ktrial.cli.options import json_option, write_answer, write_json
from ktrial.cli.shared.bench import check_output
from ktrial.kit.errors import BadInput, Contradiction

EXIT_NOT_SIGNED = 1
_VERIFY_HINT = "ktrial bundle --verify BUNDLE --signers FILE"


@click.command(short_help="Pack sessions into one file that others can check.")
@click.argument("output", type=click.Path(path_type=Path), metavar="OUT.tar.zst")
@click.argument("sessions", nargs=-1, shell_complete=bundle_names, metavar="[SESSION|TRIAL…]")
@click.option(
    "--comparison",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Comparison to add with its data, for `ktrial recheck`.",
)
@click.option("--keep-identity", is_flag=True, help="Keep names of hosts and users, serial numbers and MAC addresses.")
@click.option(
    "--sign",
    "key",
    type=click.Path(path_type=Path),
    metavar="KEY",
    help="SSH key that signs the bundle: a private key file, or KEY.pub of a key in ssh-agent.",
)
@click.option("--verify", is_flag=True, help="Write nothing; check who signed the bundle OUT.tar.zst.")
@click.option(
    "--signers",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Names and keys that --verify accepts, one `NAME KEY` a line (allowed_signers of OpenSSH).",
)
@click.option("--force", is_flag=True, help="Overwrite OUT.tar.zst, and with --sign its signature, if they exist.")
@json_option
@click.pass_obj
def command(
    app: App,
    output: Path,
    sessions: tuple[str, ...],
    comparison: Path | None,
    keep_identity: bool,
    key: Path | None,
    verify: bool,
    signers: Path | None,
    force: bool,
    as_json: bool,
) -> int:
    """Pack sessions with all their data into OUT.tar.zst, a file that others can check.

    Without names, ktrial packs every session; with --comparison, the compared sessions. A session includes its
    records, raw output, machine states and trials. Name a trial to pack its session.

    ktrial replaces names of hosts and users, serial numbers and MAC addresses with placeholders, in raw output too.
    Measured numbers stay. `ktrial import OUT.tar.zst` adds the sessions to another store.

    Others can check the bundle with `ktrial recheck`. To check a trial, they need only its session. For any other
    comparison, use --comparison to add the file that `ktrial compare -o` wrote; ktrial recomputes the comparison before
    packing.

    With --sign, ssh-keygen signs the bundle and writes OUT.tar.zst.sig; publish both files. With --verify, the exit
    status is 1 unless somebody in the file of --signers signed exactly this bundle.

    \b
    ktrial bundle found.tar.zst TRIAL --sign ~/.ssh/id_ed25519
    ktrial bundle --verify found.tar.zst --signers signers
    """
    if verify:
        writes = bool(sessions) or comparison is not None or keep_identity or key is not None or force
        return _verify(output, signers, writes=writes, as_json=as_json)
    if signers is not None:
        raise BadInput("--signers requires --verify", hint=_VERIFY_HINT)
    from ktrial.cli.shared.evidence import pack_comparison, scrubbing_of, sessions_named, tell
    from ktrial.evidence.pack import make_bundle

    _check_files(output, key, force=force)
    if comparison is not None:
        from ktrial.compare.files import as_json as encoded
        from ktrial.compare.files import read_comparison
        from ktrial.evidence.model import COMPARISON

        writer, made, found = pack_comparison(app, read_comparison(comparison), sessions, keep_identity=keep_identity)
        writer.member(COMPARISON, [encoded(found)])
        writer.write(output, made.sessions)
    else:
        store = app.store
        chosen = sessions_named(app, sessions)
        if not chosen:
            raise BadInput(f"nothing to pack: {store.shown} is empty", hint="measure a suite with `ktrial bench SUITE`")
        scrubbing = None if keep_identity else scrubbing_of(app)
        made = make_bundle(output, chosen, store, app.bundles.new(), scrubbing, app.trials)
    signature = _sign(app, output, key)
    if as_json:
        write_json({"schema": "ktrial.bundled/1", "file": str(output), "made": made, "signature": signature})
    tell(app, output, made, kept=keep_identity)
    return 0


def _check_files(bundle: Path, key: Path | None, *, force: bool) -> None:
    from ktrial.evidence.signature import check_signing, signature_of

    check_output(bundle, force=force)
    if key is not None:
        check_signing(key)
        check_output(signature_of(bundle), force=force)


def _sign(app: App, bundle: Path, key: Path | None) -> str | None:
    """Sign a bundle and return the signature's file; without a key, warn of an old signature and return None."""
    from ktrial.evidence.signature import sign, signature_of

    if key is None:
        if signature_of(bundle).exists():
            app.say(f"{signature_of(bundle)} belongs to an earlier bundle: remove it, or sign this one with --sign")
        return None
    app.say(f"signing {bundle} with {key}; ssh-keygen asks for its passphrase if it has one")
    place = sign(bundle, key)
    check = f"ktrial bundle --verify {bundle} --signers FILE"
    app.say(f"signed: publish {place} beside the bundle; others check both files with `{check}`")
    return str(place)


def _verify(bundle: Path, signers: Path | None, *, writes: bool, as_json: bool) -> int:
    """Show who signed a bundle; `writes` is true if other options would write one."""
    from ktrial.evidence.signature import signature_text, verify

    if writes:
        raise Contradiction(
            "cannot combine --verify with sessions, or with options that write a bundle", hint=_VERIFY_HINT
        )
    if signers is None:
        raise BadInput("--verify requires --signers, the file of keys that you trust", hint=_VERIFY_HINT)
    found = verify(bundle, signers)
    write_answer(
        as_json,
        lambda: {"schema": "ktrial.signature/1", "signature": found, "told": found.sentence},
        lambda width: signature_text(found, width=width),
    )
    return 0 if found.state == "good" else EXIT_NOT_SIGNED
