// Tries steps in a workspace, and goes back when one fails. Files, nothing else.
import { spawnSync } from "node:child_process";
import { readFileSync, readdirSync, renameSync, writeFileSync } from "node:fs";

const [ws, ...commands] = process.argv.slice(2);
const control = `${ws}/.snapshots`;

function snapshot(message) {
  const n = readdirSync(control).length;
  writeFileSync(`${control}/create`, `try-${process.pid}-${n} ${message}\n`);
  return JSON.parse(readFileSync(`${control}/create`, "utf8")).name;
}

for (const command of commands) {
  const before = snapshot(`before ${command}`);
  if (spawnSync(command, { shell: true, cwd: ws, stdio: "inherit" }).status !== 0) {
    renameSync(`${control}/restore`, `${control}/restore@${before}`);
    console.log(`${command}: failed, and undone`);
  }
}
