import { createSession } from "@espalier/engine";
import { memoryStore } from "@espalier/session-tree";
import { treeReader } from "@espalier/viewer/model";

const session = await createSession({ store: memoryStore() });
await session.appendMessages([{ role: "user", content: "What does the cache do?" }]);
const reader = treeReader(session.tree);
const { leafRow } = await reader.facts();
const { total } = await reader.context(leafRow);
console.log(`The model reads ${total} tokens.`);
await session.close();
