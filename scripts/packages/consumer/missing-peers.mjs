// Runs in the consumer's project, without optional peers: each call that needs a peer must name it and its
// installation.
import { openStore } from "espalier";
import { anthropicSummarizer } from "espalier/anthropic";

const messages = [{ role: "user", content: "Hello." }];
/** @type {[string, () => Promise<unknown>][]} */
const calls = [
  ["pg", () => openStore("postgres://nobody@127.0.0.1/none")],
  ["pg", () => import("espalier/postgres")],
  ["@langchain/langgraph-checkpoint", () => import("espalier/adapters/langgraph")],
  [
    "@anthropic-ai/sdk",
    () => anthropicSummarizer({ apiKey: "none" }).summarize({ messages, purpose: "history" }),
  ],
];
for (const [peer, call] of calls) {
  const message = await call().then(
    () => "no error",
    (/** @type {Error} */ error) => error.message,
  );
  if (message.includes(`npm install ${peer}`)) continue;
  console.error(`Error: without ${peer} a call says: ${message}`);
  process.exit(1);
}
