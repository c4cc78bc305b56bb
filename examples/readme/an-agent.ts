import { anthropicFormat, buildRequest, createSession } from "espalier";

const session = await createSession({ cwd: process.cwd() });
await session.appendMessages([{ role: "user", content: "What does this repository do?" }]);

// Policies and extensions run first; then the request is repaired so that the provider accepts it.
const { context, system } = await session.prepareRequest({ system: "You help with code." });
const request = buildRequest(context, { format: anthropicFormat, system });
console.log(JSON.stringify(request)); // send it, then append what came back:
await session.appendMessages([{ role: "assistant", content: "It keeps sessions as trees." }]);
await session.close();
