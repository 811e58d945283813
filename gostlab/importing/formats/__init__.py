"""The formats, in the order in which a file is tried: a module each, with a FORMAT."""

from gostlab.importing.formats import csv_probes, flent, iperf3, irtt, leoreplayer, mahimahi
from gostlab.importing.seen import Format

FORMATS: dict[str, Format] = {
    module.FORMAT.name: module.FORMAT
    for module in (irtt, iperf3, flent, csv_probes, leoreplayer, mahimahi)
}
