// LangGraph's checkpointers, and ours, for a graph that stores a conversation: a prompt in, an answer out.
import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { AIMessage, HumanMessage } from "@langchain/core/messages";
import { MemorySaver, MessagesAnnotation, StateGraph } from "@langchain/langgraph";
import { medianTime, writtenBytes } from "../lib/bench.mjs";

const TURNS = 3;

export const tasks = {
  async turns({ folder, lengths, message, answer, saver, address }) {
    const said = textOf(message);
    const answered = textOf(answer);
    const { checkpointer, size, end } = await SAVERS[saver]({ folder, address });
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
      const turn = () => graph.invoke({ messages: [new HumanMessage(said)] }, config);
      count = length + 2 * TURNS;
      const before = await size?.();
      const ms = await medianTime(TURNS, turn);
      curve.push({ x: length, ms, ...(size ? { bytes: ((await size()) - before) / TURNS } : {}) });
    }
    await (checkpointer.end ?? checkpointer.close)?.call(checkpointer);
    await end?.();
    return { curve };
  },
};

/** Savers by name; `size` returns the number of bytes written so far. */
const SAVERS = {
  memory: async () => ({ checkpointer: new MemorySaver() }),
  /** Its driver is compiled for the Node that installs it, which may differ from this Node. */
  async sqlite({ folder }) {
    const { SqliteSaver } = await import("@langchain/langgraph-checkpoint-sqlite");
    const file = join(folder, "langgraph.sqlite");
    return {
      checkpointer: SqliteSaver.fromConnString(file),
      size: () => sizeOf(file) + sizeOf(`${file}-wal`),
    };
  },
  async postgres({ address }) {
    const { PostgresSaver } = await import("@langchain/langgraph-checkpoint-postgres");
    const checkpointer = PostgresSaver.fromConnString(address);
    await checkpointer.setup();
    return { checkpointer, ...(await writeAheadLog(address)) };
  },
  async espalierPostgres({ address }) {
    const { EspalierSaver } = await import("../.work/espalierAdaptersLanggraph.mjs");
    const { migratePostgres, openPostgresStore } = await import("../.work/espalierPostgres.mjs");
    await migratePostgres(address);
    const store = openPostgresStore(address);
    const { size, end } = await writeAheadLog(address);
    const close = () => Promise.all([store.close(), end()]);
    return { checkpointer: new EspalierSaver({ store }), size, end: close };
  },
  async espalier({ folder }) {
    const { EspalierSaver } = await import("../.work/espalierAdaptersLanggraph.mjs");
    const sessions = join(folder, "sessions");
    const files = () => readdirSync(sessions, { recursive: true, withFileTypes: true });
    return {
      checkpointer: new EspalierSaver({ home: folder }),
      size: () => files().reduce((sum, { parentPath, name }) => sum + fileSize(join(parentPath, name)), 0),
    };
  },
};

async function writeAheadLog(address) {
  const { poolDatabase } = await import("../.work/storePostgres.mjs");
  const database = poolDatabase(address, "the bench's server");
  return { size: () => writtenBytes(database), end: () => database.close() };
}

const sizeOf = (path) => statSync(path, { throwIfNoEntry: false })?.size ?? 0;

/** Size of a file; 0 for a folder. */
const fileSize = (path) => (statSync(path).isFile() ? sizeOf(path) : 0);

const textOf = ({ content }) => content.map(({ text }) => text ?? "").join("\n");
