import { useEffect, useState } from "preact/hooks";

type Theme = "light" | "dark";

interface ThemeChoice {
  /** What is shown now. */
  shown: Theme;
  turn(): void;
}

const systemDark = matchMedia("(prefers-color-scheme: dark)");

/** Light or dark: as the system has it, until somebody says otherwise. */
export function useTheme(): ThemeChoice {
  const [system, setSystem] = useState<Theme>(systemDark.matches ? "dark" : "light");
  const [chosen, setChosen] = useState<Theme>();
  const shown = chosen ?? system;
  useEffect(() => {
    const follow = () => setSystem(systemDark.matches ? "dark" : "light");
    systemDark.addEventListener("change", follow);
    return () => systemDark.removeEventListener("change", follow);
  }, []);
  document.documentElement.dataset["theme"] = shown;
  return { shown, turn: () => setChosen(shown === "dark" ? "light" : "dark") };
}

export function ThemeButton({ theme }: { theme: ThemeChoice }) {
  return (
    <button
      type="button"
      class="theme"
      aria-label={`Change to ${theme.shown === "dark" ? "light" : "dark"}`}
      onClick={theme.turn}
    >
      {theme.shown === "dark" ? "☾" : "☀"}
    </button>
  );
}
