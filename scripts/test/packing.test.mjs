import { join, relative } from "node:path";
import { expect, test } from "vitest";
import { manifestFor, relocatedMap, repositoryOf } from "../packages/pack.mjs";
import { root } from "../tools.mjs";

test("a packed source map names no folder of the machine that packed it", () => {
  const folder = "/tmp/packing/dist";
  const sources = ["packages/engine/src/index.ts", "node_modules/commander/index.js"];
  const map = {
    version: 3,
    sources: sources.map((path) => relative(folder, join(root, path))),
    mappings: "A",
  };
  const packed = relocatedMap(JSON.stringify(map), join(folder, "index.js.map"));
  expect(JSON.parse(packed)).toEqual({ version: 3, sources, mappings: "A" });
});

test("the packed manifest has the framework of every adapter as an optional peer", () => {
  const { peerDependencies, peerDependenciesMeta } = manifestFor(["index"]);
  expect(peerDependencies).toMatchObject({
    "@anthropic-ai/claude-agent-sdk": "^0.3.330",
    "@earendil-works/pi-coding-agent": ">=0.58.0 <1.7.0",
    "@langchain/langgraph-checkpoint": ">=1.2.2 <2",
    "@openai/agents": "^0.20.0",
  });
  const optional = Object.keys(peerDependencies).map((peer) => [peer, { optional: true }]);
  expect(peerDependenciesMeta).toEqual(Object.fromEntries(optional));
});

test("the packed manifest has the public address of the clone's origin, without credentials", () => {
  const repository = {
    type: "git",
    url: "git+https://code.example/garden/espalier.git",
    directory: "packages/espalier",
  };
  for (const remote of [
    "https://code.example/garden/espalier.git",
    "https://ada:secret@code.example/garden/espalier.git",
    "git@code.example:garden/espalier.git",
    "ssh://git@code.example:2222/garden/espalier.git",
  ])
    expect(repositoryOf(remote), remote).toEqual({ repository });
  for (const path of ["", "/srv/espalier", "../espalier", "file:///srv/espalier.git", "C:\\espalier"])
    expect(repositoryOf(path), path).toEqual({});
});
