import { plainLine } from "../../text.ts";
import type { Style } from "../screen/frame.ts";

interface RoleLook {
  /** At most seven characters, except for a role of an extension. */
  title: string;
  style: Style;
}

const ROLES = new Map(
  Object.entries<RoleLook>({
    user: { title: "you", style: "user" },
    assistant: { title: "model", style: "model" },
    toolResult: { title: "tool", style: "tool" },
    bashExecution: { title: "shell", style: "tool" },
    compactionSummary: { title: "summary", style: "summary" },
    branchSummary: { title: "branch", style: "summary" },
    compaction: { title: "summary", style: "summary" },
    branch_summary: { title: "summary", style: "summary" },
  }),
);

/** Returns the name and style of a message's role, or of a summary. */
export const roleLook = (role: string): RoleLook =>
  ROLES.get(role) ?? { title: plainLine(role), style: "plain" };
