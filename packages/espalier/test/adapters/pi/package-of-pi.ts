// The package whose command `pi` npx put on the path.
import { existsSync, realpathSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";

/** The folder of the package. */
export function packageOfPi(): string {
  const commands = (process.env["PATH"] ?? "").split(delimiter).map((each) => join(each, "pi"));
  const command = commands.find((each) => existsSync(each));
  if (command === undefined) throw new Error("There is no command pi on the path.");
  let at = dirname(realpathSync(command));
  while (!existsSync(join(at, "package.json"))) at = dirname(at);
  return at;
}
