// A process that writes one session by an adapter: it writes each line of its input, and answers each with a line.
import { createInterface } from "node:readline";
import type { SessionManager as Manager } from "espalier/adapters/pi";

interface Options {
  home: string;
  idleMs?: number;
  waitMs?: number;
}

interface Writer {
  write(text: string): Promise<unknown>;
  close(): unknown;
}

const writers: Record<string, (options: Options) => Promise<Writer>> = {
  async langgraph(options) {
    const { EspalierSaver } = await import("espalier/adapters/langgraph");
    const saver = new EspalierSaver(options);
    const config = { configurable: { thread_id: "shared", checkpoint_ns: "", checkpoint_id: "first" } };
    return {
      write: (text) => saver.putWrites(config, [["notes", text]], text),
      close: () => saver.close(),
    };
  },
  async claude(options) {
    const { claudeSessionStore } = await import("espalier/adapters/claude-agent-sdk");
    const store = claudeSessionStore(options);
    const key = { projectKey: "garden", sessionId: "shared" };
    return {
      write: (text) => store.append(key, [{ type: "note", uuid: text }]),
      close: () => store.close(),
    };
  },
  async openai(options) {
    const { openaiSessions } = await import("espalier/adapters/openai-agents");
    const sessions = openaiSessions(options);
    return {
      write: (text) => sessions.session("shared").addItems([{ role: "user", content: text }]),
      close: () => sessions.close(),
    };
  },
  async pi({ home }) {
    const { SessionManager } = await import("espalier/adapters/pi");
    let session: Manager | undefined;
    return {
      async write(text) {
        session ??= SessionManager.open<Manager>(`${home}/shared.jsonl`);
        session.appendMessage({ role: "user", content: text, timestamp: 1 });
      },
      close: () => session?.close(),
    };
  },
};

const [host = "", options = ""] = process.argv.slice(2);
const writer = await writers[host]!(JSON.parse(options) as Options);
for await (const text of createInterface(process.stdin))
  try {
    await (text === "close" ? writer.close() : writer.write(text));
    console.log(`done ${text}`);
  } catch (error) {
    const { code, message } = error as { code?: string; message: string };
    console.log(`${code}: ${message}`);
  }
await writer.close();
