#!/usr/bin/env node
'use strict';
// Runs the program of the package for this processor, in place of this process
// where Node.js can do that.
const { spawn } = require('child_process');
const name = `@amberfs/${process.platform}-${process.arch}`;

function fail(why) {
  console.error(`amberfs: ${why}`);
  process.exit(1);
}

if (!['@amberfs/linux-x64', '@amberfs/linux-arm64'].includes(name)) {
  fail(`this package has programs for Linux on x64 and arm64, not for ${process.platform} on ${process.arch}; ` +
    'see https://github.com/amberfs/amberfs/blob/main/docs/how-to/install.md');
}
let program;
try {
  program = require.resolve(`${name}/bin/amberfs`);
} catch {
  fail(`the package ${name} is missing: install amberfs again, with optional dependencies`);
}
const args = process.argv.slice(2);
if (process.execve) process.execve(program, ['amberfs', ...args], process.env);

// Signals wait for the program to be there. A terminal sends it the first two as well.
let child;
for (const signal of ['SIGINT', 'SIGQUIT']) process.on(signal, () => {});
for (const signal of ['SIGTERM', 'SIGHUP', 'SIGUSR2']) process.on(signal, () => child.kill(signal));
child = spawn(program, args, { argv0: 'amberfs', stdio: 'inherit' });
child.on('error', (err) => fail(`cannot run ${program}: ${err.message}`));
child.on('exit', (status, signal) => {
  if (signal === null) process.exit(status);
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
});
