import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { expect, test } from "vitest";
import { checkSession } from "../demo-session/check.mjs";
import { createRecorder } from "../demo-session/recorder.mjs";
import { parseScreenplay } from "../demo-session/screenplay.mjs";
import { playOnto } from "../demo-session/stage.mjs";
import { root } from "../tools.mjs";

test("the session of the demo is what its screenplay gives, and is sound", () => {
  const options = { cwd: root, encoding: "utf8" };
  const { status, stderr } = spawnSync(
    process.execPath,
    [join(root, "scripts/write-demo-session.mjs"), "--check"],
    options,
  );
  expect([status, stderr]).toEqual([0, ""]);
});

const played = (text) => {
  const recorder = createRecorder({ seed: 1, startedAt: "2026-01-01T00:00:00.000Z", cwd: "/garden" });
  playOnto(recorder, parseScreenplay(text, "play.txt"));
  return recorder;
};

test("a direction that cannot be carried out is named by file and line", () => {
  expect(() => played("§ user\nHello\n§ dance\n")).toThrow("play.txt:3: There is no direction called dance.");
  expect(() => played("§ go nowhere\n")).toThrow("play.txt:1: No entry is marked nowhere.");
});

test("a session that is not sound is refused", () => {
  expect(() => checkSession(played("§ user\nHello\n").text())).toThrow("One call was interrupted.");
});
