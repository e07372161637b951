# SPDX-License-Identifier: Apache-2.0
"""glmark2: scenes drawn off-screen, by the GPU or by the CPU."""

from __future__ import annotations

import math
from collections.abc import Callable

from ktrial.bench.adapters._tool import (
    VERSION_LIMIT_S,
    Program,
    ToolBenchmark,
    agree,
    display_environment,
    matching,
    one_measurement,
    refusal,
    whole,
)
from ktrial.bench.adapters.glmark2.output import Glmark2Run, read_glmark2
from ktrial.bench.benchmark import Invocation, Parameters, ParsedRun, Probe, RawOutput
from ktrial.bench.outcomes import outcome, rate
from ktrial.kit.errors import BadInput, BadRun
from ktrial.kit.outcome import Measurement

_SCENE = r"[a-z0-9-]+(?::[a-z0-9-]+=[^:\s]+)*"
_SCENES = (
    "build",
    "texture",
    "shading:shading=phong",
    "bump:bump-render=normals",
    "buffer",
    "desktop:effect=blur",
    "jellyfish",
    "refract",
)
_BLIND = (
    "Drawn off-screen as fast as possible: no game logic, no compositor, no vertical sync, and no measure of how "
    "evenly frames come. "
)
_SCORE = outcome(
    "score",
    "score",
    "score",
    "[More|Fewer] frames per second are drawn, as the mean of all scenes.",
    _BLIND + "A mean of frame rates: the fastest scenes dominate it. Compare only the same scenes.",
    (1, 1e6),
    direction="higher",
    resolution=1,
    headline=True,
)
_FPS = rate(
    "fps-geometric-mean",
    "1/s",
    "[More|Fewer] frames per second are drawn, with equal weight for each scene.",
    _BLIND.strip(),
    (0.01, 1e6),
)
#: glmark2 sets up each scene before its time starts; the CPU may take seconds for one.
_SETUP_S = 1.0


def _scenes(parameters: Parameters) -> tuple[str, ...]:
    seconds = whole(parameters, "seconds", 1, 3600)
    found = parameters["scenes"]
    if not found:
        raise BadInput(
            "parameter scenes: expected at least one scene",
            hint=f'for example  scenes = ["{_SCENES[0]}", "{_SCENES[2]}"]',
        )
    for number, scene in enumerate(found):
        matching({f"scenes[{number}]": scene}, f"scenes[{number}]", _SCENE, "shading:shading=phong")
        if ":duration=" in scene:
            raise BadInput(
                f"scene {scene!r} may not set duration", hint="set the parameter `seconds`, which applies to all scenes"
            )
    return tuple(f"{scene}:duration={seconds}" for scene in found)


def _invocation(begin: tuple[str, ...], parameters: Parameters, environment: dict[str, str]) -> Invocation:
    size = matching(parameters, "size", r"[1-9]\d{1,4}x[1-9]\d{1,4}", "800x600")
    scenes = [word for scene in _scenes(parameters) for word in ("-b", scene)]
    expected = len(parameters["scenes"]) * (whole(parameters, "seconds", 1, 3600) + _SETUP_S)
    return Invocation(
        argv=(*begin, "--off-screen", "-s", size, *scenes),
        limit_s=3 * expected + 120,
        expected_s=expected,
        environment=environment,
    )


def _by_software(parameters: Parameters) -> Invocation:
    screen = ("xvfb-run", "--auto-servernum", "--server-args=-screen 0 1280x1024x24 -nolisten tcp")
    return _invocation((*screen, "glmark2"), parameters, {"LIBGL_ALWAYS_SOFTWARE": "1"})


def _on_device(parameters: Parameters) -> Invocation:
    return _invocation(("glmark2-es2-drm",), parameters, {})


def _on_display(parameters: Parameters) -> Invocation:
    return _invocation(("glmark2",), parameters, display_environment(parameters))


def _read(raw: RawOutput, parameters: Parameters, *, by_software: bool) -> ParsedRun:
    run = read_glmark2(raw.stdout)
    _check_scenes(run, _scenes(parameters))
    if drawn := run.information.get("Surface Size"):
        agree({"size": parameters["size"]}, {"size": drawn.split()[0]})
    notes: tuple[str, ...] = ()
    if by_software and not run.by_software:
        raise BadRun(
            f"expected a software renderer, got {run.renderer}", hint="install Mesa's software renderer (llvmpipe)"
        )
    if run.by_software and not by_software:
        notes = (f"{run.renderer} is a software renderer: the CPU drew, not a GPU",)
    details = {
        "information": dict(run.information),
        "scenes": [
            {"scene": scene.name, "options": scene.options, "fps": scene.fps, "frame_time_s": scene.frame_time.value}
            for scene in run.scenes
        ],
    }
    mean = math.exp(math.fsum(math.log(scene.fps) for scene in run.scenes) / len(run.scenes))
    geometric = Measurement(outcome=_FPS.name, value=mean, original=f"{mean:.6g} 1/s of {len(run.scenes)} scenes")
    measurements = (*one_measurement("score", run.score), geometric)
    return ParsedRun(measurements=measurements, tool_version=run.version, details=details, notes=notes)


def _check_scenes(run: Glmark2Run, wanted: tuple[str, ...]) -> None:
    """Raise BadRun unless glmark2 drew the `wanted` scenes; its status is 0 even if it drew its default list."""
    drawn = [(scene.name, set(scene.options.split(":"))) for scene in run.scenes]
    asked = [(scene.split(":")[0], set(scene.split(":")[1:])) for scene in wanted]
    if len(drawn) != len(asked) or any(
        name != other or not options <= found for (name, options), (other, found) in zip(asked, drawn, strict=True)
    ):
        shown = ", ".join(f"{scene.name}:{scene.options}" for scene in run.scenes)[:300]
        raise BadRun(
            f"asked for the scenes {', '.join(wanted)}, but glmark2 drew {len(drawn)}: {shown}",
            hint="list the scenes of this version with `glmark2 --list-scenes`",
        )


def _benchmark(
    name: str,
    what: str,
    program: Program,
    command: Callable[[Parameters], Invocation],
    *,
    by_software: bool = False,
    more: Parameters | None = None,
    probe: Probe | None = None,
) -> ToolBenchmark:
    return ToolBenchmark(
        name=name,
        what=what,
        program=program,
        outcomes=(_SCORE, _FPS),
        parameters={"scenes": _SCENES, "seconds": 5, "size": "800x600", **(more or {})},
        command=command,
        reader=lambda raw, parameters: _read(raw, parameters, by_software=by_software),
        probe=probe,
    )


def _program(program: str, apt: str, *others: str) -> Program:
    return Program(
        needs=(program, *others),
        packages={"apt": apt, "dnf": "glmark2", "pacman": "glmark2", "zypper": "glmark2"},
        version=(program, "--version"),
        version_pattern=r"(?m)^(\d{4}\S*)$",
    )


def _probe(command: Callable[[Parameters], Invocation], step: str) -> Probe:
    def asked(parameters: Parameters) -> Invocation:
        whole_run = command(parameters)
        argv = (whole_run.argv[0], "--off-screen", "-s", "16x16", "-b", "build:duration=0.1")
        return Invocation(argv=argv, limit_s=VERSION_LIMIT_S, environment=whole_run.environment)

    return Probe(invocation=asked, why_not=refusal, next=step)


BENCHMARKS = (
    _benchmark(
        "glmark2-software",
        "Scenes drawn by the CPU on a virtual screen: needs neither a GPU nor a desktop, and measures no GPU.",
        Program(
            needs=("xvfb-run", "xauth", "glmark2"),
            packages={
                "apt": "glmark2-x11 xvfb xauth",
                "dnf": "glmark2 xorg-x11-server-Xvfb",
                "pacman": "glmark2 xorg-server-xvfb",
            },
            version=("glmark2", "--version"),
            version_pattern=r"(?m)^(\d{4}\S*)$",
        ),
        _by_software,
        by_software=True,
    ),
    _benchmark(
        "glmark2-device",
        "Scenes drawn by the GPU through its device file, without a desktop.",
        _program("glmark2-es2-drm", "glmark2-es2-drm"),
        _on_device,
        probe=_probe(
            _on_device,
            "run the benchmark on a machine without a desktop, where you may open the GPU's file (/dev/dri/card0)",
        ),
    ),
    _benchmark(
        "glmark2-display",
        "Scenes drawn by the GPU off-screen, through the X server of a desktop.",
        _program("glmark2", "glmark2-x11"),
        _on_display,
        more={"display": ":0", "authority": ""},
        probe=_probe(
            _on_display, "name the desktop's X server as in DISPLAY and XAUTHORITY: -p display=:1 -p authority=FILE"
        ),
    ),
)
