// Runs in the consumer's project: imports every entry it is given, and says which cannot be.
const faults = [];
for (const entry of process.argv.slice(2)) {
  await import(entry).catch((/** @type {Error} */ error) => faults.push(`${entry}: ${error.message}`));
}
if (faults.length > 0) {
  console.error(`Error: cannot be imported once installed: ${faults.join("; ")}`);
  process.exit(1);
}
