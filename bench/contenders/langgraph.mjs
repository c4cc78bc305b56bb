// LangGraph's checkpointers under a graph that keeps a conversation: a prompt in, an answer out.
import { statSync } from "node:fs";
import { join } from "node:path";
import { AIMessage, HumanMessage } from "@langchain/core/messages";
import { MemorySaver, MessagesAnnotation, StateGraph } from "@langchain/langgraph";
import { medianTime } from "../lib/bench.mjs";

const TURNS = 3;

export const tasks = {
  async turns({ folder, lengths, message, answer, saver, address }) {
    const said = textOf(message);
    const answered = textOf(answer);
    const file = join(folder, "langgraph.sqlite");
    const checkpointer =
      saver === "sqlite"
        ? await sqliteSaver(file)
        : saver === "postgres"
          ? await postgresSaver(address)
          : new MemorySaver();
    const graph = new StateGraph(MessagesAnnotation)
      .addNode("model", () => ({ messages: [new AIMessage(answered)] }))
      .addEdge("__start__", "model")
      .compile({ checkpointer });
    const config = { configurable: { thread_id: "bench" } };
    const curve = [];
    let count = 0;
    for (const length of lengths) {
      const missing = Array.from({ length: length - count }, (_, at) =>
        at % 2 === 0 ? new HumanMessage(said) : new AIMessage(answered),
      );
      await graph.updateState(config, { messages: missing }, "model");
      const before = saver === "sqlite" ? sizeOf(file) : 0;
      const ms = await medianTime(TURNS, () => graph.invoke({ messages: [new HumanMessage(said)] }, config));
      count = length + 2 * TURNS;
      const bytes = saver === "sqlite" ? (sizeOf(file) - before) / TURNS : 0;
      curve.push({ x: length, ms, ...(saver === "sqlite" ? { bytes } : {}) });
    }
    await checkpointer.end?.();
    return { curve };
  },
};

/** Its driver is compiled when it is installed, for the Node that does that, which need not be this one. */
async function sqliteSaver(file) {
  const { SqliteSaver } = await import("@langchain/langgraph-checkpoint-sqlite");
  return SqliteSaver.fromConnString(file);
}

async function postgresSaver(address) {
  const { PostgresSaver } = await import("@langchain/langgraph-checkpoint-postgres");
  const saver = PostgresSaver.fromConnString(address);
  await saver.setup();
  return saver;
}

function sizeOf(file) {
  const parts = [file, `${file}-wal`].map((path) => statSync(path, { throwIfNoEntry: false })?.size ?? 0);
  return parts[0] + parts[1];
}

const textOf = ({ content }) => content.map(({ text }) => text ?? "").join("\n");
