// Applies one transaction after another until it is killed, and prints the number of each that was acknowledged.
import type { AgentInputItem } from "@openai/agents";
import { openaiSessions } from "espalier/adapters/openai-agents";

const [home = "", once] = process.argv.slice(2);
const sessions = openaiSessions({ home });
const session = sessions.session("killed");
const said = (content: string): AgentInputItem => ({ role: "user", content });
const answered = (text: string): AgentInputItem => ({
  type: "message",
  role: "assistant",
  status: "completed",
  content: [{ type: "output_text", text }],
});

const start = (await session.getItems()).length / 3;
for (let number = start; ; number++) {
  await session.applyHistoryTransaction({
    operationId: `${number}`,
    transaction: {
      type: "append_items",
      items: [said(`${number} a`), answered(`${number} b`), said(`${number} c`)],
    },
  });
  console.log(number);
  if (once) break;
}
await sessions.close();
