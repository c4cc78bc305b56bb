const [first, ...others] = process.argv.slice(2);
if (others.length === 0 && (first === "-V" || first === "--version")) {
  // Nothing else is loaded for this answer.
  console.log(process.env["ESPALIER_VERSION"] ?? "development");
} else {
  const { runCommandLine } = await import("./program.ts");
  process.exit(await runCommandLine(process.argv.slice(2)));
}
