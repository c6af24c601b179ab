"""Every sentence of `runner verify`: a stable code and its form. What a language makes of it is in the catalogues.

The checks, and the readers below them, say what they found in English. A text that has one of these forms is said in
the reader's language; anything else is somebody else's text and stays as it is, between quotation marks. A test reads
the checks' own sources and asks for a form of every sentence that stands there.

The last part of a place's name says what stands there: `_count` a whole number (`n_count` also chooses singular or
plural), `_utc` an instant, `_why` a sentence of this table, `_key` a key, `_step` and `_steps` names of checks,
`_kind` a word of `KINDS`; anything else is kept.
"""

from __future__ import annotations

from collections.abc import Mapping

from runner.note.i18n import N_, NN_

Form = str | tuple[str, str]
"""One form, or singular and plural by `n_count`."""

STEP_NAMES: Mapping[str, str] = {
    "folder": N_("folder"),
    "archive": N_("archive"),
    "signed list": N_("signed list"),
    "files": N_("files"),
    "note": N_("note"),
    "other files": N_("other files"),
    "PDF signature": N_("PDF signature"),
    "frozen protocol": N_("frozen protocol"),
    "model": N_("model"),
    "attachments": N_("attachments"),
    "chain of attempts": N_("chain of attempts"),
    "files of the attempts": N_("files of the attempts"),
    "verdicts": N_("verdicts"),
    "decision": N_("decision"),
    "templates": N_("templates"),
    "text of the note": N_("text of the note"),
    "page 1 of the PDF": N_("page 1 of the PDF"),
    "pages of the PDF": N_("pages of the PDF"),
    "rental record": N_("rental record"),
    "rest of the archive": N_("rest of the archive"),
    "everything else": N_("everything else"),
}
KINDS: Mapping[str, str] = {
    "link": N_("link"),
    "pipe": N_("pipe"),
    "socket": N_("socket"),
    "device": N_("device"),
    "missing file": N_("missing file"),
    "thing of unknown kind": N_("thing of unknown kind"),
}
SUBJECTS: Mapping[str, str] = {"folder": N_("folder"), "archive": N_("archive"), "PDF alone": N_("PDF alone")}

FRAME: Mapping[str, Form] = {
    "frame.note": N_("note: {note}"),
    "frame.unknown": N_("note: unknown"),
    "frame.key": N_("signed with: {signer_key}"),
    "key.local": N_("local test key {fingerprint}"),
    "key.local-pdf": N_("local test key"),
    "key.certificate": N_("certificate of '{subject}'"),
    "frame.ok": N_("ok"),
    "frame.failed": N_("FAILED"),
    "frame.follows": N_('fails as well, because of "{cause_step}" above'),
    "frame.more": NN_("and {n_count} more (--json lists it)", "and {n_count} more (--json lists all)"),
    "frame.must": N_("page 1 must say:"),
    "frame.own-words": N_("page 1 must say, in the words of this version:"),
    "frame.commands": N_("the same without our code, in the campaign folder:"),
    "frame.commands-pdf": N_(
        "the same without our code, for the PDF, and for its evidence in /tmp/evidence, where the line of attachments "
        "(--json) takes it:"
    ),
    "frame.long": N_("{long_steps}: one line of Python each, in docs/checking.md and with --json"),
    "prints.nothing": N_("prints nothing"),
    "prints.empty": N_("prints []"),
    "prints.purpose": N_("purpose, note and key"),
    "prints.beside": N_("read it beside note/decision-note.qmd"),
    "prints.attachments": N_("prints nothing; an evidence.zip holds the records and verdicts"),
    "prints.templates": N_("PROJECT: a checkout of this project; prints nothing"),
    "prints.balance": N_("compare with note/balance.csv and the note"),
    "prints.data": N_("in the folder that holds data/"),
    "prints.invoice": N_("beside the invoice"),
    "prints.right": N_("right, compared, expected: as {file} says; the others alike"),
    "stale.note": N_("The note is stale: {stale_why}. If that was you, next: make report"),
    "stale.rows": NN_(
        "{n_count} attempt recorded since it was signed", "{n_count} attempts recorded since it was signed"
    ),
    "stale.rows-decided": NN_(
        "{n_count} attempt recorded and decided again since it was signed",
        "{n_count} attempts recorded and decided again since it was signed",
    ),
    "stale.decided": N_("decided again since it was signed"),
    "limits": N_(
        "No check of files can find: measurements made up from the start and signed; rows of a machine that was left "
        "out whole, or rows that the owner of the key cut off at the end of a chain with all that belongs to them; "
        "when the protocol was frozen (only an outside time stamp of the lock shows that); prices, dates and rentals "
        "that were entered wrongly. Ask for the rental's invoice, or measure again: runner again."
    ),
    "end.refused": N_("NOT ACCEPTED: {failed_steps}"),
    "end.refused-also": N_("NOT ACCEPTED: {failed_steps}; therefore also: {following_steps}"),
    "end.all": N_("Everything fits, {signer_why}."),
    "end.checked": N_("Everything that was checked fits, {signer_why}."),
    "end.trusted": N_("and it was signed by somebody you named"),
    "end.test-key": N_("but it is signed with a local test key, which shows consistency only, not who signed"),
    "end.nobody": N_("but who signed was not checked (give --signers FILE)"),
    "end.nobody-pdf": N_("but who signed was not checked (give --signers FILE or --certificate FILE)"),
    "end.page-one": N_(
        "Of the PDF, the text of page 1 was compared; its pictures, what lies over it and the other pages were not "
        "(--rebuild compares all)."
    ),
    "end.page-one-alone": N_(
        "Of the PDF, the text of page 1 was compared; its pictures, what lies over it and the other pages were not."
    ),
    "end.unread": N_("What the pages of the PDF say was not compared with the evidence."),
    "end.other-version": N_(
        "The note was made by another version ({made_by}): its text was not compared; use that version for it."
    ),
}

CHECKS: Mapping[str, Form] = {
    # kinds of files
    "folder.plain": N_("plain files and folders only"),
    "folder.odd": N_("nothing was read: links, pipes or devices lie among the evidence"),
    "folder.odd-file": N_("a {file_kind}, no plain file"),
    "folder.no-plain": N_("no plain file"),
    "folder.unread": N_("nothing was read: it holds links, pipes or devices, or too much"),
    "folder.too-much": N_("more than {n_count} files or {bytes_count} bytes"),
    "folder.stop": N_("reading could hang or leave the folder; remove these first"),
    "step.broken": N_("could not be checked ({error}: {text})"),
    # who signed
    "signer.named": N_("made by {signer}"),
    "signer.pattern": N_("made by somebody who matches {signer}"),
    "signer.unchecked": N_("who signed was not checked"),
    "signer.key": N_("key {fingerprint}; who signed was not checked"),
    "list.fits": NN_(
        "{n_count} file listed; the list fits its signature, {signer_why}",
        "{n_count} files listed; the list fits its signature, {signer_why}",
    ),
    "list.purpose": N_("the list was signed for another purpose: {purpose}"),
    "list.key": N_("the list says it was signed with {listed_key}, yet the signature is of {fingerprint}"),
    "list.note": N_("the list is of the note {note}, the decision of {other}"),
    "list.attached": NN_(
        "{n_count} attached file fits the list, the list fits its signature of {listed_key}, {signer_why}; it covers "
        "note/signer.json, which names the PDF's certificate",
        "{n_count} attached files fit the list, the list fits its signature of {listed_key}, {signer_why}; it covers "
        "note/signer.json, which names the PDF's certificate",
    ),
    "list.none": N_("the PDF carries none: no SSH key vouches for it"),
    "list.none-signers": N_("the signers file cannot say who made this PDF: it carries no list signed with an SSH key"),
    "list.certificate": N_(
        "give --certificate with the one that you got from its maker, or check the folder or the archive"
    ),
    "list.other-files": N_("the PDF carries other files than were signed"),
    "list.no-signer": N_(
        "the list does not cover note/signer.json, so it does not say whose certificate signed the PDF"
    ),
    "list.unreadable": N_("missing or unreadable ({text})"),
    "list.utf8": N_("the signed list is not UTF-8 (byte {place_count})"),
    "list.header": N_("the signed list does not say {what}"),
    "list.line": N_("not a line of the signed list: 64 hexadecimal digits, two blanks, a path"),
    "list.twice": N_("a file stands twice in the signed list"),
    "list.names": N_("the signed list holds names that are refused"),
    "list.canonical": N_("the signed list is not in canonical form (order, blanks or line ends)"),
    "list.unsignable": N_("the campaign holds file names that cannot be signed"),
    "list.device": N_("{name} is a link or a device, which cannot be signed"),
    # files
    "files.fit": NN_(
        "all {n_count} are byte for byte the ones that were signed",
        "all {n_count} are byte for byte the ones that were signed",
    ),
    "files.fit-some": N_("{equal_count} of {all_count} are byte for byte the ones that were signed"),
    "files.differ": NN_("{n_count} does not fit the signed list", "{n_count} do not fit the signed list"),
    "file.wrongly-left-out": N_("left out, yet not a file of texts that was signed"),
    "file.not-here": N_("not in this archive"),
    "file.uncovered": N_("not covered by the signature"),
    "file.hidden": N_("hidden, not covered by the signature, not read"),
    "file.missing": N_("missing"),
    "file.differs": N_("differs"),
    "file.from-nothing": N_("nothing gives this file"),
    "file.line-ends": N_("same records, bytes differ (line ends)"),
    "file.hash": N_("sha256 differs"),
    "file.hash-list": N_("sha256 differs from the signed list"),
    "file.hash-line-ends": N_("sha256 differs from the signed list (same records, bytes differ: line ends)"),
    "file.hash-manifest": N_("sha256 differs from the manifest"),
    "file.hash-tagmanifest": N_("sha256 differs from the tagmanifest-sha256.txt"),
    "file.sha256": N_("sha256 {sha256}"),
    "note.names": N_("list, decision and key belong to {note}"),
    "note.key": N_("note/signer.json does not name the key of the list ({listed_key})"),
    "others.none": N_("nothing lies beside the evidence, and no private key in it"),
    "others.no-key": N_("no private key among them"),
    "others.beside": N_("covered by no signature and not read: {names}"),
    "others.beside-more": N_("covered by no signature and not read: {names} and {more_count} more"),
    "others.keys": N_("private keys travel with this folder: whoever gets it can sign in their name; delete them"),
    "others.own-key": N_("the private key of this note's signature travels with it, so anybody may have signed"),
    "others.key": N_("a private key"),
    # protocol, model, attachments, chain
    "lock.frozen": NN_(
        "says that it was frozen {frozen_utc}, signed with {lock_why}; {n_count} variant",
        "says that it was frozen {frozen_utc}, signed with {lock_why}; {n_count} variants",
    ),
    "lock.same-key": N_("the key of the note"),
    "lock.other-key": N_("another key than the note's, {fingerprint}"),
    "model.fits": NN_("{n_count} file is the frozen one", "{n_count} files are the frozen ones"),
    "model.elsewhere": N_("the model is not in this folder; the lock holds the hashes of its files"),
    "model.differs": N_("its files are not the frozen ones"),
    "model.file": N_("{old} -> {new}"),
    "attached.equal": NN_(
        "the {n_count} file in the PDF equals the one beside it", "the {n_count} files in the PDF equal those beside it"
    ),
    "attached.not": N_("not attached to the PDF"),
    "attached.missing": N_("attached to the PDF, missing beside it"),
    "attached.differs": N_("the attached file differs from the one beside the PDF"),
    "attached.extra": N_("attached to the PDF, yet no part of its evidence"),
    "attached.other": N_("the PDF carries other evidence"),
    "attached.version": N_(
        "equal where they are there; made by {made_by}: this version ({this_code}) would attach others"
    ),
    "attached.alone": NN_("{n_count} file of evidence, nothing else", "{n_count} files of evidence, nothing else"),
    "attached.alone-missing": N_("evidence that belongs into the PDF is missing"),
    "attached.alone-not": N_("not attached"),
    "attached.alone-more": N_("the PDF carries more than its evidence"),
    "attached.alone-extra": N_("no part of the evidence"),
    "chain.whole": NN_(
        "{rows_count} rows of {n_count} machine, none missing", "{rows_count} rows of {n_count} machines, none missing"
    ),
    "chain.broken": N_("rows were deleted, changed or reordered"),
    # what was measured, judged and decided
    "measured.fit": N_("{all_count} predictions, samples, journals and manifests are the ones the rows name"),
    "measured.differ": N_("{wrong_count} of {all_count} are not the ones that were measured"),
    "measured.some": N_(
        "{here_count} of {all_count} are here and the ones that the rows name; the others are elsewhere"
    ),
    "measured.contradict": N_(
        "rows and what was written while they were measured contradict each other ({contradictions_count})"
    ),
    "measured.other": N_("not the file that {attempt} names"),
    "measured.other-more": N_("not the file that {attempt} and {more_count} more names"),
    "measured.missing": N_("missing, named by {attempt}"),
    "measured.missing-more": N_("missing, named by {attempt} and {more_count} more"),
    "verdicts.none": N_("{attempt} is completed but has no verdict"),
    "verdicts.equal": N_(
        "{all_count} attempts judged again from the raw records, {accepted_count} accepted, as the files in verdicts/ "
        "say"
    ),
    "verdicts.differ": N_("judged again from the raw records, they differ"),
    "verdicts.version": N_(
        "the same verdicts; made by {made_by}, which words them otherwise than this version ({this_code})"
    ),
    "verdicts.own-metric": N_(
        "the protocol names a metric of its own: read its code, then runner verify --run-evaluation"
    ),
    "verdicts.too-large": N_(
        "predictions and labels are too large for the PDF ({files_count} files): ask for the archive"
    ),
    "decision.equal": N_(
        "decided again from records, plan and tariffs: {answer_why}, as note/decision.json and note/balance.json say"
    ),
    "decision.differs": N_(
        "decided again from records, plan and tariffs: {answer_why}; the note's decision files are other ones"
    ),
    "decision.version": N_(
        "the same choice, costs and durations; made by {made_by}, which writes them otherwise than this version "
        "({this_code})"
    ),
    "decision.priced": N_("{configuration}, {total_money}"),
    "decision.free": N_("{configuration}, cost not applicable"),
    "decision.undecided": N_("undecided"),
    "templates.own": N_("as they come with {this_code}: every sentence of the note is the tool's"),
    "templates.none": N_("no templates in this folder: those of this installation are used"),
    "templates.version": N_(
        "not compared: they came with {made_by}, another version than this one ({this_code}); balance and decision "
        "above do not depend on them"
    ),
    "templates.differ": NN_(
        "{n_count} is not that of {this_code}: sentences that it adds or leaves out are its maker's words; balance and "
        "decision above do not depend on it",
        "{n_count} are not those of {this_code}: sentences that they add or leave out are their maker's words; balance "
        "and decision above do not depend on them",
    ),
    # text and pages
    "text.follows": N_("note/decision-note.qmd follows from the evidence, byte by byte"),
    "text.all-follow": NN_(
        "text, HTML, {n_count} figure and the calculator follow from the evidence, byte by byte",
        "text, HTML, {n_count} figures and the calculator follow from the evidence, byte by byte",
    ),
    "text.language": N_("the note does not say its language"),
    "text.other": N_("not what the evidence gives"),
    "text.version": N_("made by another version ({made_by}): text not compared; use that version"),
    "text.samples": N_("needs the templates and samples that only folder and archive hold"),
    "page-one.says": N_(
        "its text is that of page 1 in note/decision-note.qmd; pictures and overlays were not looked at"
    ),
    "page-one.other": N_("its text is not that of note/decision-note.qmd"),
    "page-one.lacks": N_("page 1 does not say “{text}”"),
    "page-one.adds": N_("page 1 says more: “{text}”"),
    "page-one.headline": N_("page 1 does not say what was decided: “{text}”"),
    "page-one.unreadable": N_("its text cannot be read ({text})"),
    "page-one.no-block": N_("the note's own templates give it no first page of the usual form: compare it by eye"),
    "page-one.unproved": N_(
        "its text is that of page 1 in note/decision-note.qmd, which the evidence does not prove here"
    ),
    "pages.rebuilt": N_("made again from the evidence, byte by byte the same"),
    "pages.other": N_("does not begin with the PDF that the evidence gives"),
    "pages.unread": N_("not made again and compared (--rebuild does it)"),
    "pages.alone": N_(
        "templates and samples are not inside a PDF, so its pages cannot be made again: read them beside the text"
    ),
    "pdf.stop": N_("what a PDF carries is read only when its signature is good"),
    # the archive
    "bag.fits": NN_(
        "{n_count} file, each byte of the archive covered by its signature, {signer_why}",
        "{n_count} files, each byte of the archive covered by its signature, {signer_why}",
    ),
    "bag.repacked": N_(
        "packed by another tool than ours ({repacked_why}): nothing covers the bytes of this ZIP file itself"
    ),
    "bag.repacked-fits": NN_(
        "its {n_count} file fits its manifests and the signature, {signer_why}",
        "its {n_count} files fit their manifests and the signature, {signer_why}",
    ),
    "bag.unpack": N_("unpack it and check the folder: runner verify {name}; or ask for the original file"),
    "bag.compressed": N_("it is compressed"),
    "bag.folders": N_("it holds entries for folders"),
    "bag.container": N_("the archive's container was changed (byte {place_count} is not what it must be)"),
    "bag.not-ours": N_("not an archive of this tool: its files about itself differ"),
    "bag.changed": N_("the archive is not the one that was signed"),
    "bag.oxum": N_("bag-info.txt: Payload-Oxum does not fit the payload ({oxum})"),
    "bag.canonical": N_("not in canonical form"),
    "bag.line": N_("not a manifest line: {line}"),
    "rest.nothing": N_("nothing but the note with its evidence, the rental record and the model"),
    "rest.more": N_("the archive holds more than note, rental record and model"),
    "rest.other-note": N_("bag-info.txt names another note than the signed list"),
    "rest.file": N_("in the archive, yet neither signed with the note nor part of the model"),
    "rental.decided": N_("{fields} as decided"),
    "rental.measured": N_(
        "{fields} as in what was measured; no configuration is chosen, so there is no package and no price to compare"
    ),
    "rental.own": N_(
        "{fields} as on the own machine that was measured; nothing is rented on it, "
        "so there is no package and no price to compare"
    ),
    "rental.none-decided": N_("no field as decided"),
    "rental.none-measured": N_(
        "no field as in what was measured; no configuration is chosen, so there is no package and no price to compare"
    ),
    "rental.contradicts": N_("the rental record does not match the decision: {fields}"),
    "rental.field": N_("the note says {expected}, the record {found}"),
    "rental.own-machine": N_("own machine: nothing is rented, cost not applicable"),
    "rental.plan": N_("the plan does not say"),
    "rental.decision": N_("the decision does not say"),
    "rental.undecided": N_("nothing is decided"),
}
