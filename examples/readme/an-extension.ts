import { defineExtension } from "espalier";

export default defineExtension((api) => {
  api.on("session_before_compact", ({ preparation, branchEntries }) => {
    if (branchEntries.length < 20) return { cancel: true, reason: "there is hardly anything to compact" };
    return { instructions: `Mention these files: ${[...preparation.fileOps.edited].join(", ")}` };
  });
  api.on("session_compact", ({ entry }, { ui }) => {
    ui.notify(`${entry.tokensBefore} tokens are a summary now.`);
  });
});
