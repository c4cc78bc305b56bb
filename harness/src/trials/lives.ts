import { mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { POLICY_NAMES } from "@espalier/engine";
import type { Harness } from "../harness.ts";
import { live } from "./lives/life.ts";
import { KEY } from "./lives/strict-server.ts";
import { protocols } from "./lives/wire.ts";

/**
 * Random lives under each policy, on Anthropic, Chat Completions, Responses and the AI SDK, through their SDKs: a server
 * that keeps to its provider's documentation refuses no request. `count` is the number of turns of each life.
 */
export const lives: Harness = {
  async run({ seed, isShort, count = isShort ? 12 : 300, folder }, findings) {
    // The SDK would warn of models that it does not know.
    Object.assign(globalThis, { AI_SDK_LOG_WARNINGS: false });
    for (const [at, protocol] of protocols.entries())
      for (const [nth, policy] of POLICY_NAMES.entries()) {
        const own = join(folder, `${protocol}-${policy}`);
        mkdirSync(own, { recursive: true });
        await live(
          { protocol, policy, seed: seed * 100 + at * 10 + nth, turns: count, folder: own },
          findings,
        );
        for (const name of readdirSync(own, { recursive: true, encoding: "utf8" }))
          if (name.endsWith(".jsonl") && readFileSync(join(own, name), "utf8").includes(KEY))
            findings.fault(`${protocol}, ${policy}: a key is in ${name}.`);
        findings.count("lives");
      }
  },
};
