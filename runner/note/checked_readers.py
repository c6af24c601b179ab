"""Sentences of `runner verify` that come from the readers below it: chain, journals, signatures, PDF, names.

Same rules as in `runner.note.checked`.
"""

from __future__ import annotations

from collections.abc import Mapping

from runner.note.checked import Form
from runner.note.i18n import N_, NN_

READERS: Mapping[str, Form] = {
    # SSH signatures
    "ssh.purpose": N_("the signature was made for another purpose ({found} instead of {wanted})"),
    "ssh.bytes": N_("the signature does not fit the signed bytes"),
    "ssh.stranger": N_("the signer is not in the signers file"),
    "ssh.negated": N_("the signers file names this key, but its line only says who is not meant (!)"),
    "ssh.dates": N_("the signers file names this key, but on a line that does not hold now (its dates or options)"),
    "ssh.not-allowed": N_("the signers file does not allow this: {text}"),
    "ssh.lines": N_("not an SSH signature: the begin or end line is missing or altered"),
    "ssh.base64": N_("the signature's base64 text is damaged"),
    "ssh.canonical": N_("the signature file is not in canonical form"),
    "ssh.version": N_("not an SSH signature of version 1"),
    "ssh.follow": N_("bytes follow the signature"),
    "ssh.short": N_("the signature is cut short"),
    "ssh.ascii": N_("the type of the key is not ASCII"),
    "ssh.namespace": N_("namespace or hash name cannot be read"),
    # the chain of attempts
    "chain.gap": NN_("{n_count} row missing before {attempt}", "{n_count} rows missing before {attempt}"),
    "chain.place": N_("{attempt} has the place {place_count}, which another row holds"),
    "chain.first-changed": N_("the first row was changed after {attempt} was written, or rows were reordered"),
    "chain.changed": N_("{before} was changed after {attempt} was written, or rows were reordered"),
    "chain.no-head": N_("its head file is missing ({file})"),
    "chain.end": NN_(
        "{n_count} row missing at the end, the last was {attempt}",
        "{n_count} rows missing at the end, the last was {attempt}",
    ),
    "chain.last-changed": N_("the last row {attempt} was changed after it was written"),
    "chain.more": N_("more rows ({rows_count}) than its head file names ({head_count})"),
    "chain.torn": N_("incomplete, {bytes_count} bytes, kept; an attempt without result ({torn_why})"),
    "chain.torn-json": N_("not complete JSON"),
    "chain.copies": NN_("{n_count} exact copy ignored ({places})", "{n_count} exact copies ignored ({places})"),
    # rows against journals, clocks and names
    "row.number": N_("its name says that it was number {name_count} on its machine, its chain says {chain_count}"),
    "row.variant": N_("its name is of another variant or pass"),
    "row.retry": N_("it runs {attempt} again, which is not among the rows"),
    "row.clock": N_("a pass of {pass} s, between a start and an end that are {between} s apart"),
    "row.device": N_("declared {gpu}, measured on {names}"),
    "row.no-device": N_("declared {gpu}, measured on no card"),
    "row.served": N_("its process had served {served_count} attempts, the rows show {rows_count}"),
    "row.process": N_("its process was started for {attempt}, no row before it"),
    "row.process-on": N_("its process goes on after {attempt}, which was not completed"),
    "row.process-twice": N_("its process was started for an earlier attempt, yet it says how long that took"),
    "row.journal": N_("its journal cannot be read"),
    "row.journal-of": N_("its journal is of {attempt}"),
    "row.journal-status": N_("completed, its journal says {text}"),
    "row.journal-count": N_("{found_count} documents, its journal says {text}"),
    "row.journal-seconds": N_("a pass of {pass} s, its journal says {journal} s from its beginning to its end"),
    "row.gone": N_("no row of an attempt names it: was its row removed?"),
    # the PDF's signature
    "pdf.covers": N_("covers the entire file; certificate of '{subject}', sha256 {sha256}"),
    "pdf.other-note": N_("the signature is for another note: {text}"),
    "pdf.certificate": N_("the certificate is not the expected one"),
    "pdf.other-signer": N_("note/signer.json in it names another certificate"),
    "pdf.unsigned": N_("the PDF is not signed"),
    "pdf.several": N_("the PDF holds more than one signature"),
    "pdf.changed": N_("the document was changed after it was signed"),
    "pdf.invalid": N_("the signature does not fit its certificate"),
    "pdf.part": N_("the signature does not cover the entire file"),
    "pdf.modified": N_("the document was modified in a way that its signature does not allow"),
    "pdf.active": N_("the document holds active content ({name})"),
    "pdf.parts": N_("the PDF's parts cannot be listed ({text})"),
    "pdf.unreadable": N_("the PDF or its signature cannot be read ({text})"),
    "pdf.container": N_("the signature's container cannot be read ({text})"),
    "pdf.ranges": N_("the signed ranges are not the beginning and the rest of the file"),
    "pdf.digits": N_("the signature's container was changed: not plain upper-case hexadecimal digits"),
    "pdf.follow": N_("the signature's container was changed: bytes follow the signature"),
    "pdf.form": N_("the signature's container was changed: not the one form that its content has"),
    "pdf.voucher": N_("the signature's container holds a certificate that nothing vouches for"),
    # names of files
    "name.empty": N_("{name} is empty"),
    "name.control": N_("{name} holds a control or unprintable character"),
    "name.backslash": N_("{name} holds a backslash"),
    "name.absolute": N_("{name} is absolute"),
    "name.leads-out": N_("{name} leads out of the folder (..)"),
    "name.long-form": N_("{name} is not in its shortest form"),
    "name.windows": N_("{name} is another name, a device or a hidden stream on Windows"),
    "name.too-long": N_("{name} is too long"),
    "name.twice": N_("{name} stands twice"),
    "name.same": N_("{name} is the same as {other} on some systems"),
    "name.same-folder": N_("the folder {name} is the same as {other} on some systems"),
    "name.both": N_("{name} is a file and a folder at once"),
}
