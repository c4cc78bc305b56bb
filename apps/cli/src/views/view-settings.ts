import type { LeftOutSetting, SettingOrigin } from "@espalier/engine";
import { plainLine } from "../plain-text.ts";
import type { Shell } from "../shell.ts";

/** The settings in force, for people: what is not said by default stands out; what does not count comes last. */
export function* viewSettings(
  settings: readonly SettingOrigin[],
  leftOut: readonly LeftOutSetting[],
  { colours }: Pick<Shell, "colours">,
): Generator<string> {
  const rows = settings.map((setting) => ({ ...setting, text: textOf(setting.value) }));
  const keyWidth = widest(rows.map(({ key }) => key));
  const valueWidth = widest(rows.map(({ text }) => text));
  yield colours.dim(`${"setting".padEnd(keyWidth)}  ${"value".padEnd(valueWidth)}  from`);
  for (const { key, text, origin, file, variable } of rows) {
    const place = file ?? variable;
    const from = place === null ? origin : `${origin}: ${plainLine(place)}`;
    const row = `${key.padEnd(keyWidth)}  ${text.padEnd(valueWidth)}  `;
    yield origin === "default" ? `${row}${colours.dim(from)}` : `${colours.bold(row)}${from}`;
  }
  if (leftOut.length === 0) return;
  yield "";
  yield colours.dim("left out, since the project is not trusted as it is now:");
  for (const { key, file, effect } of leftOut)
    yield `${key.padEnd(keyWidth)}  ${EFFECTS[effect]}  ${colours.dim(plainLine(file))}`;
}

/** Why a setting of a project does not count before somebody trusts it. */
const EFFECTS: Readonly<Record<LeftOutSetting["effect"], string>> = {
  runs: "runs code",
  sends: "chooses who is sent what was said",
  spends: "decides how often and how much is sent",
};

function textOf(value: unknown): string {
  if (value === null || (Array.isArray(value) && value.length === 0)) return "-";
  return plainLine(Array.isArray(value) ? value.join(", ") : String(value));
}

const widest = (texts: readonly string[]): number => Math.max(5, ...texts.map(({ length }) => length));
