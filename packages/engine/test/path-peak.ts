/** A program: opens a session, reads its context, acts on it as told, and says how long the context was before and after. */
import { openSession } from "@espalier/engine";

const [file, act] = process.argv.slice(2) as [string, "navigate" | "walk" | undefined];
const session = await openSession({ file }, { compaction: { autoCompact: false } });
const before = session.context.messages.length;
if (act === "navigate") await session.navigate(null);
if (act === "walk") for (const entry of session.tree.entries()) if (entry.id === "") throw new Error();
console.log(JSON.stringify({ before, after: session.context.messages.length, model: session.context.model }));
await session.close();
