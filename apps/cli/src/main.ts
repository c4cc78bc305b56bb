import { runCommandLine } from "./program.ts";

process.exit(await runCommandLine(process.argv.slice(2)));
