// A map viewer that flickers, written with the tools of opencode.
import { edit, fail, messagesOf, opencode, plan, read, run, type Turn } from "./steps.ts";

const A = "packages/atlas/src";
const mapInOpencode: readonly Turn[] = [
  [
    "The map viewer in packages/atlas flickers while panning. I want it smooth at 60 frames on a cheap laptop. Stay on WebGL 1, we still support old tablets.",
    [
      read(`${A}/tile-layer.ts`, "drawTileLayer", "requestTile", "evictTiles", "tileKeyOf"),
      read(`${A}/camera.ts`, "panCamera", "zoomCamera", "cameraMatrix"),
      run("pnpm --filter atlas bench:pan", "median 21 fps, 340 tile uploads per second"),
    ],
    "The flicker comes from evictTiles: it drops tiles that are still visible, so every pan uploads them again. 340 uploads per second is the reason for 21 frames.",
  ],
  [
    "Then keep visible tiles. The budget for textures stays at 96 MB.",
    [
      edit(
        `${A}/tile-layer.ts`,
        "const TEXTURE_BUDGET_MB = 96;\nexport function pinVisibleTiles() {}",
        "I chose pinning over a larger cache because the budget must stay.",
      ),
      fail("pnpm --filter atlas test", "FAIL src/tile-layer.test.ts\nError: pinned tile 3/4/2 was evicted"),
      edit(
        `${A}/tile-cache.ts`,
        "export function isPinned(key) { return pins.has(key); }",
        "The cache has an eviction of its own that ignores pins.",
      ),
      run("pnpm --filter atlas test", "41 passed"),
    ],
    "Visible tiles are pinned now and both evictions respect it. The test failed first because tile-cache.ts evicted on its own; 41 tests pass.",
  ],
  [
    "Measure again please",
    [run("pnpm --filter atlas bench:pan", "median 48 fps, 12 tile uploads per second")],
    "Now 48 frames and 12 uploads per second. What remains is text: labels are drawn anew in each frame.",
  ],
  [
    "Cache the labels as sprites, but never scale them, blurry labels were rejected by design last year.",
    [
      read(`${A}/labels.ts`, "drawLabels", "measureLabel", "placeLabels", "collideLabels"),
      edit(`${A}/label-atlas.ts`, "export class LabelAtlas { packLabel() {} }"),
      fail(
        "pnpm --filter atlas build",
        "src/label-atlas.ts(12,7): error TS2564: Property 'canvas' has no initializer",
      ),
      edit(`${A}/label-atlas.ts`, "readonly canvas = createCanvas(1024, 1024);"),
      run("pnpm --filter atlas build", "built in 2.1s"),
    ],
    "Labels are packed once for each zoom step in LabelAtlas, since scaling them between steps would blur. The build works again after the canvas got its initializer.",
  ],
  [
    "Does it leak when one pans for an hour?",
    [
      run("pnpm --filter atlas soak --minutes 10", "heap 212 MB, 1,930 canvases"),
      read(`${A}/label-atlas.ts`, "packLabel", "releaseLabel", "growAtlas"),
      edit(
        `${A}/label-atlas.ts`,
        "releaseLabel(id) { this.free.push(id); }",
        "Labels that leave the view are never released, which causes the growth.",
      ),
      run("pnpm --filter atlas soak --minutes 10", "heap 88 MB, 4 canvases"),
    ],
    "It did leak: labels out of view were never released. With releaseLabel the heap stays at 88 MB and there are four canvases instead of 1,930.",
  ],
  [
    "Good. Make a changeset and put it on a branch called smooth-pan",
    [
      run("git switch -c smooth-pan && pnpm changeset add --empty", "Created .changeset/quiet-tiles.md"),
      run("git commit -qam 'Pin visible tiles and cache labels' && git rev-parse --short HEAD", "a4b81f6"),
    ],
    "Committed a4b81f6 on branch smooth-pan with the changeset .changeset/quiet-tiles.md.",
  ],
  [
    "On a tablet from 2016 the labels are missing altogether. See https://bugs.example/ATL-207",
    [
      run("adb logcat -d | grep GL_", "GL_INVALID_VALUE: texture 4096 exceeds MAX_TEXTURE_SIZE 2048"),
      edit(`${A}/label-atlas.ts`, "const side = Math.min(4096, gl.getParameter(gl.MAX_TEXTURE_SIZE));"),
      fail(
        "pnpm --filter atlas test",
        "FAIL src/label-atlas.test.ts\nTypeError: gl.getParameter is not a function",
      ),
      edit("packages/atlas/test/fake-gl.ts", "getParameter: () => 2048"),
      run("pnpm --filter atlas test", "44 passed"),
    ],
    "ATL-207: growAtlas asked for 4096 where the tablet allows 2048. The side is read from MAX_TEXTURE_SIZE now, and fake-gl.ts answers it so that the tests pass.",
  ],
  [
    "Should we move the packing into a web worker?",
    [run("pnpm --filter atlas bench:pack", "packLabel 0.4 ms a frame")],
    "I would not: packing takes 0.4 ms a frame, so a worker is overkill and transferring canvases is risky on the old tablets.",
  ],
  [
    "ok no worker. Next the zoom: wheel events pile up and the map jumps. Debounce is not an option, it feels laggy.",
    [
      plan(
        "x Pin visible tiles",
        "x Cache labels",
        "~ Smooth zoom by wheel",
        "  Soak test on the tablet",
        "  Release notes",
      ),
      read(`${A}/wheel.ts`, "onWheel", "applyZoom", "normalizeDelta"),
      edit(
        `${A}/wheel.ts`,
        "export function coalesceWheel(events) { return sum(events); }",
        "Events are summed per frame instead of debounced, as the user ruled debounce out.",
      ),
      fail(
        "pnpm --filter atlas test",
        "FAIL src/wheel.test.ts\nAssertionError: zoom went past MAX_ZOOM by 0.25",
      ),
      edit(`${A}/wheel.ts`, "const next = clampZoom(zoom + delta);"),
      run("pnpm --filter atlas test", "47 passed"),
    ],
    "Wheel events are summed in coalesceWheel and applied once a frame. A test showed that the sum went past MAX_ZOOM, which clampZoom fixed.",
  ],
  [
    "And pinch gestures?",
    [
      read(`${A}/touch.ts`, "onTouchMove", "pinchDistance", "pinchCenter"),
      edit(`${A}/touch.ts`, "applyZoom(coalescePinch(moves));"),
      run("pnpm --filter atlas bench:pinch", "median 58 fps"),
    ],
    "Pinch goes through the same path now and reaches 58 frames; it was already clamped because applyZoom does it.",
  ],
  [
    "Run the soak test on the tablet over night, device 10.0.4.23, and write the results to docs/soak.md",
    [
      run("pnpm --filter atlas soak --device 10.0.4.23 --minutes 480", "heap 131 MB, 4 canvases, 0 errors"),
      edit("packages/atlas/docs/soak.md", "Eight hours on 10.0.4.23: heap 131 MB, no errors."),
    ],
    "Eight hours on 10.0.4.23 without an error: heap 131 MB, four canvases. docs/soak.md has the figures. Next I will write the release notes.",
  ],
  [
    "Write them, two sentences at most.",
    [
      edit(
        "packages/atlas/CHANGELOG.md",
        "Panning and zooming are smooth on old hardware. Labels no longer leak.",
      ),
    ],
    "The release notes are two sentences: smooth panning and zooming on old hardware, and labels that no longer leak.",
  ],
];

/** A map viewer that flickers, with the tools of opencode. */
export const atlas = messagesOf(opencode, mapInOpencode);
