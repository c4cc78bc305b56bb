// Folder of the workspace, and the environment for its tools, independent of how a script was started.
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";

export const root = fileURLToPath(new URL("..", import.meta.url));

export const toolEnvironment = {
  ...process.env,
  PATH: `${join(root, "node_modules/.bin")}${delimiter}${process.env["PATH"] ?? ""}`,
  TURBO_TELEMETRY_DISABLED: "1",
};
