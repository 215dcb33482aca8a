"""What measurements a prediction can rest on: how near they are, and which ones to name."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from trainplan.planner.throughput.nets import convolutions
from trainplan.planner.throughput.rates import Precision
from trainplan.planner.throughput.setup import Family, Library, Link, Setup
from trainplan.planner.throughput.values import Basis


class Nearness(StrEnum):
    """The nearest evidence, from the same configuration to none; each kind has its own interval."""

    REPEATED = "repeated"
    """The same configuration, from the same source."""
    SAME_NET = "same_net"
    """The same net, image size and precision on this device from the same source, at another batch."""
    SAME_SOURCE = "same_source"
    """Other nets or sizes on this device from the same source, in the same precision."""
    SAME_DEVICE = "same_device"
    """This device, from other sources."""
    OTHER_PRECISION = "other_precision"
    """This device, but only in another precision."""
    SAME_ARCHITECTURE = "same_architecture"
    """Other devices of this architecture."""
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceRow:
    """A measurement, as far as nearness goes. `convolutions` orders nets by depth."""

    id: str
    model: str
    convolutions: int
    image_size_px: int
    batch: int
    count: int
    precision: Precision
    xla: bool
    family: Family
    source: str
    device: str
    architecture: str
    link: Link
    library: Library


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The measurements nearest to a question."""

    nearness: Nearness
    ids: tuple[str, ...]
    sharing_seen: bool
    """Whether the sharing among several devices was seen too, on this device and from this source; true for one."""

    depth_gap: float = 0.0
    """How far the net's depth is from the nearest that this source measured on this device: the logarithm of the ratio
    of their convolutions."""
    several: bool = False
    link: Link = Link.ONE
    library: Library = Library.ONE
    library_seen: bool = True
    """Whether anything that this library shared was seen, on any device."""

    @property
    def key(self) -> str:
        """The name of the interval that fits."""
        if not self.library_seen:
            return UNSEEN_LIBRARY
        if not self.sharing_seen:
            return f"{self.nearness}+{SCATTERING if self.scattered else SHARING}"
        if self.several:
            return f"{self.nearness}+{'scattered' if self.scattered else 'shared'}"
        return f"{self.nearness}+{OTHER_DEPTH}" if self.depth_gap else str(self.nearness)

    @property
    def scattered(self) -> bool:
        """Whether the sharing is torch's `nn.DataParallel`."""
        return self.library is Library.DATA_PARALLEL

    @property
    def position(self) -> str:
        """The name of the link and the library whose own spread counts; empty where it does not."""
        return f"{self.link}/{self.library}" if self.key.endswith(f"+{SHARING}") else ""

    @property
    def scale(self) -> float:
        """What the half width of this kind is multiplied by: an unseen depth costs with the square of how far it is, as
        whatever curves does between and beyond the points it is known at."""
        return self.depth_gap**2 if self.key == _OTHER_DEPTH_KEY else 1.0

    def half_width(self, half_widths: Mapping[str, float], sharing_scales: Mapping[str, float]) -> float:
        """The half width of the interval, in logarithms, from those of each kind; `sharing_scales` is how much farther
        off than others the sharing over a link by a library is."""
        nearest, kind = half_widths[str(self.nearness)], half_widths.get(self.key)
        if kind is None:
            # Sharing that no fold tried beside this evidence: its own doubt comes on top.
            sharing = half_widths[f"{Nearness.SAME_SOURCE}+{SHARING}"]
            return math.hypot(nearest, sharing * sharing_scales.get(self.position, 1.0))
        if self.key == UNSEEN_LIBRARY:
            return max(kind, nearest)
        if self.key != _OTHER_DEPTH_KEY:
            return kind * sharing_scales.get(self.position, 1.0)
        # However near its depth, a net is known no better than one of that depth; however far, no worse than from
        # another source.
        return min(max(kind * self.scale, nearest), half_widths[str(Nearness.SAME_DEVICE)])


OTHER_DEPTH = "other_depth"
_OTHER_DEPTH_KEY = f"{Nearness.SAME_SOURCE}+{OTHER_DEPTH}"
SHARING, SCATTERING, UNSEEN_LIBRARY = "sharing", "scattering", "unseen_library"
_NAMED_ROWS = 3
_ORDER = tuple(Nearness)


def basis_of(nearness: Nearness) -> Basis:
    """What an answer is called that rests on measurements so near."""
    if nearness is Nearness.REPEATED:
        return Basis.MEASURED
    return Basis.MODELLED if nearness in (Nearness.SAME_ARCHITECTURE, Nearness.NONE) else Basis.SCALED


def seen_of(setup: Setup, id_: str, model: str) -> EvidenceRow:
    """A set-up as evidence: `id_` is the measurement's, `model` the net's name."""
    return EvidenceRow(
        id=id_,
        model=model,
        convolutions=convolutions(setup.net),
        image_size_px=setup.net.image_size,
        batch=setup.batch,
        count=setup.count,
        precision=setup.precision,
        xla=setup.xla,
        family=setup.family,
        source=setup.source,
        device=setup.device,
        architecture=setup.rates.architecture,
        link=setup.link,
        library=setup.library,
    )


def evidence(
    configuration: EvidenceRow,
    rows: Sequence[EvidenceRow],
    architectures: frozenset[str],
    libraries: frozenset[str] = frozenset(Library),
) -> Evidence:
    """The evidence for `configuration` among the rows of its device; `architectures` and `libraries` are those with any
    row at all."""
    several = configuration.count > 1
    positions = [_position(configuration, row) for row in rows]
    sharing = Evidence(
        nearness=Nearness.NONE,
        ids=(),
        sharing_seen=not several,
        several=several,
        link=configuration.link,
        library=configuration.library,
        library_seen=not several or configuration.library in libraries,
    )
    if not positions:
        is_known = configuration.architecture in architectures
        return replace(sharing, nearness=Nearness.SAME_ARCHITECTURE if is_known else Nearness.NONE)
    best = min(positions)
    nearest = [row for row, position in zip(rows, positions, strict=True) if position == best]
    nearest.sort(key=lambda row: (_distance(configuration, row), row.id))
    nearness = _ORDER[best // 2]
    return replace(
        sharing,
        nearness=nearness,
        depth_gap=_depth_gap(configuration, rows) if nearness is Nearness.SAME_SOURCE else 0.0,
        ids=tuple(row.id for row in nearest[:_NAMED_ROWS]),
        sharing_seen=not several or best % 2 == 0,
    )


def _depth_gap(configuration: EvidenceRow, rows: Sequence[EvidenceRow]) -> float:
    depths = {
        row.convolutions
        for row in rows
        if row.source == configuration.source and row.precision is configuration.precision
    }
    # A net without convolutions is as far from the others as one with a single one.
    return min(abs(math.log(max(depth, 1) / max(configuration.convolutions, 1))) for depth in depths)


def _position(configuration: EvidenceRow, row: EvidenceRow) -> int:
    """Twice the place of the nearness, plus one where several devices share the step in another way."""
    shares_alike = (row.link, row.library) == (configuration.link, configuration.library)
    other_sharing = configuration.count > 1 and not shares_alike
    if row.precision is not configuration.precision:
        return _OTHER_PRECISION + other_sharing
    if row.source != configuration.source:
        return _SAME_DEVICE + other_sharing
    if (
        row.model != configuration.model
        or row.image_size_px != configuration.image_size_px
        or row.xla is not configuration.xla
    ):
        return _SAME_SOURCE + other_sharing
    if row.count != configuration.count or other_sharing:
        return _SAME_SOURCE + other_sharing
    return _REPEATED if row.batch == configuration.batch else _SAME_NET


_REPEATED, _SAME_NET, _SAME_SOURCE, _SAME_DEVICE, _OTHER_PRECISION = range(0, 10, 2)


def _distance(configuration: EvidenceRow, row: EvidenceRow) -> float:
    """How far apart two configurations are, for naming the nearest first; the weights are an order of preference."""
    doublings = abs(math.log2(row.batch / configuration.batch)) + abs(math.log2(row.count / configuration.count))
    doublings += 2 * abs(math.log2(row.image_size_px / configuration.image_size_px))
    other = (
        3 * (row.model != configuration.model)
        + 2 * (row.xla is not configuration.xla)
        + (row.family is not configuration.family)
    )
    return doublings + other
