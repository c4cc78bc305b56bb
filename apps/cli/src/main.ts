const [first, ...others] = process.argv.slice(2);
if (others.length === 0 && (first === "-V" || first === "--version")) {
  // Nothing else is loaded for this answer.
  console.log(process.env["ESPALIER_VERSION"] ?? "development");
} else if (first === "hook") {
  // The agent waits for this process, but not for the import.
  if (others[0] === "--import") await (await import("./agents/brief.ts")).runImport(others.slice(1));
  else await (await import("./agents/hook.ts")).runHook(others);
} else {
  const { runCommandLine } = await import("./program.ts");
  process.exit(await runCommandLine(process.argv.slice(2)));
}
