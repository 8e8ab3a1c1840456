#!/usr/bin/env python3
"""Whether tools/deploy and docs/metrics.md say what the program understands.

Usage: deploy_check.py PROGRAM ROOT

PROGRAM is heddle, ROOT the repository. Where PyYAML or systemd-analyze are missing, their part is left out and says so.
"""
import configparser
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

try:
    import yaml
except ImportError:
    yaml = None

PROGRAM = ROOT = ""
PREFIXES = {"server": "HEDDLE_SERVER_", "scheduler": "HEDDLE_SCHEDULER_"}
PREFIX = PREFIXES["server"]


def text_of(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def check_config(arguments, variables, command="server"):
    """Runs --check-config, with these variables and no others of the command."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(PREFIXES[command])}
    # This host may lack the pod's interface.
    variables = {name: re.sub("^eth0:", "lo:", value) for name, value in variables.items()}
    return subprocess.run([PROGRAM, command, "--check-config", *arguments], env={**environment, **variables},
                          capture_output=True, text=True, check=False)


def table(printed):
    """Parses the printed table as {setting: (value, origin)}."""
    return {line.split()[0]: tuple(line.split()[1:3]) for line in printed.splitlines()}


KEY_FILES = ("comm.key", "comm.allowed", "comm.curve")


class Keys:
    """A temporary directory with keys."""

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        subprocess.run([PROGRAM, "keygen", "--out", self.folder.name], capture_output=True, check=True)
        return self.folder.name

    def __exit__(self, *_):
        self.folder.cleanup()


def metrics_of(command, *words):
    """The page /metrics of a program that is started for it."""
    with subprocess.Popen([PROGRAM, command, "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--log-format", "json", *words],
                          stderr=subprocess.PIPE, text=True) as process:
        try:
            started = next(line for line in map(json.loads, process.stderr) if line["event"] == "started")
            with urllib.request.urlopen(f"http://{started['metrics']}/metrics", timeout=60) as page:
                return page.read().decode()
        finally:
            process.kill()


def names_of_series():
    """The names of all series that a server and a scheduler have."""
    names = set()
    for page in (metrics_of("server"), metrics_of("scheduler", "--servers", "1")):
        for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", page, re.MULTILINE):
            names.update([name] if kind != "histogram" else [name + end for end in ("_bucket", "_sum", "_count")])
    return names


def metrics_in(expression):
    """The names of Heddle's metrics and recorded rules in an expression of Prometheus."""
    return re.findall(r"\bheddle_(?:server|scheduler)[\w:]+", re.sub(r'"[^"]*"', "", expression))


def bytes_of(quantity):
    """The bytes of a quantity as Kubernetes or Heddle writes it: 10Gi, 8GiB."""
    number, unit = re.fullmatch(r"(\d+)([KMG]i)B?", quantity).groups()
    return int(number) << {"Ki": 10, "Mi": 20, "Gi": 30}[unit]


@unittest.skipUnless(yaml, "no PyYAML")
class Kubernetes(unittest.TestCase):
    def setUp(self):
        self.text = text_of("tools", "deploy", "kubernetes.yaml")
        everything = list(yaml.safe_load_all(self.text))
        self.objects = {one["kind"]: one for one in everything if one["metadata"]["name"] == "heddle-server"}
        self.scheduler = {one["kind"]: one for one in everything if one["metadata"]["name"] == "heddle-scheduler"}
        self.assertEqual(len(everything), len(self.objects) + len(self.scheduler))
        self.set = self.objects["StatefulSet"]["spec"]
        self.pod = self.set["template"]["spec"]
        self.server = self.pod["containers"][0]
        self.variables = {one["name"]: one["value"] for one in self.server["env"]}

    def test_objects(self):
        self.assertEqual(set(self.objects), {"Service", "StatefulSet", "PodDisruptionBudget", "NetworkPolicy"})
        self.assertEqual(set(self.scheduler), {"Service", "StatefulSet", "NetworkPolicy"})
        for one in [*self.objects.values(), *self.scheduler.values()]:
            self.assertIn("apiVersion", one)

    def test_scheduler(self):
        spec = self.scheduler["StatefulSet"]["spec"]
        self.assertEqual(spec["replicas"], 1)
        pod = spec["template"]["spec"]
        scheduler = pod["containers"][0]
        variables = {one["name"]: one["value"] for one in scheduler["env"]}
        with Keys() as keys:  # the state's directory exists in the pod only
            state = os.path.join(keys, os.path.basename(variables["HEDDLE_SCHEDULER_STATE"]))
            result = check_config([], {**variables, "HEDDLE_SCHEDULER_KEYS": keys, "HEDDLE_SCHEDULER_STATE": state}, "scheduler")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        found = table(result.stdout)
        self.assertEqual(int(found["servers"][0]), self.set["replicas"])
        # Servers reach the scheduler by its pod's name in its Service, and its state outlives the pod.
        name = self.scheduler["Service"]["metadata"]["name"]
        self.assertEqual(spec["serviceName"], name)
        ports = {one["name"]: one["containerPort"] for one in scheduler["ports"]}
        self.assertEqual(self.variables["HEDDLE_SERVER_SCHEDULER"],
                         f"{self.scheduler['StatefulSet']['metadata']['name']}-0.{name}:{ports['scheduler']}")
        # instructions for workers
        self.assertIn(self.variables["HEDDLE_SERVER_SCHEDULER"], self.text.split("apiVersion")[0])
        # The servers' snapshots outlive their pods too.
        server = self.objects["StatefulSet"]["spec"]
        own = {one["name"]: one["mountPath"] for one in self.pod["containers"][0]["volumeMounts"]}
        self.assertIn(self.variables["HEDDLE_SERVER_SNAPSHOTS"],
                      [own[one["metadata"]["name"]] for one in server["volumeClaimTemplates"]])
        claims = {one["metadata"]["name"] for one in spec["volumeClaimTemplates"]}
        mounts = {one["name"]: one["mountPath"] for one in scheduler["volumeMounts"]}
        self.assertTrue(any(variables["HEDDLE_SCHEDULER_STATE"].startswith(mounts[one]) for one in claims))
        self.assertEqual(spec["updateStrategy"]["type"], "OnDelete")
        self.assertEqual(pod["initContainers"][0], self.pod["initContainers"][0])
        self.assertEqual(pod["containers"][1], self.pod["containers"][1])

    def test_who_reaches_whom(self):
        for objects, main in ((self.objects, 9463), (self.scheduler, 9462)):
            rule = objects["NetworkPolicy"]["spec"]["ingress"][0]
            labels = [one["podSelector"]["matchLabels"] for one in rule["from"]]
            self.assertEqual(labels, [{"heddle-worker": "yes"}, {"app": "heddle-server"}])
            self.assertEqual(rule["ports"], [{"port": main}])

    def test_servers_are_exchanged_when_copies_are_complete(self):
        self.assertEqual(self.set["updateStrategy"]["type"], "RollingUpdate")
        self.assertEqual(self.server["readinessProbe"]["httpGet"]["path"], "/readyz")
        self.assertEqual(self.variables["HEDDLE_SERVER_REPLICAS"], "2")
        # a server is ready only when its replica's server is there
        self.assertEqual(self.set["podManagementPolicy"], "Parallel")

    def test_names_are_stable_and_pods_are_found(self):
        service = self.objects["Service"]["spec"]
        self.assertEqual(service["clusterIP"], "None")
        self.assertTrue(service["publishNotReadyAddresses"])
        self.assertEqual(self.set["serviceName"], self.objects["Service"]["metadata"]["name"])
        labels = self.set["template"]["metadata"]["labels"]
        selectors = [service["selector"], self.set["selector"]["matchLabels"],
                     self.objects["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
                     self.objects["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"]]
        for selector in selectors:
            self.assertLessEqual(selector.items(), labels.items())

    def test_variables_are_settings(self):
        with Keys() as keys:
            # The number comes from the pod's name, which this host does not have.
            self.assertEqual(self.variables["HEDDLE_SERVER_NUMBER"], "hostname")
            result = check_config([], {**self.variables, "HEDDLE_SERVER_NUMBER": "1", "HEDDLE_SERVER_KEYS": keys})
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertNotIn("note:", result.stdout)
        found = table(result.stdout)
        for name in self.variables:
            self.assertEqual(found[name[len(PREFIX):].lower().replace("_", "-")][1], name)
        self.assertEqual(int(found["servers"][0]), self.set["replicas"])

    def test_ports_are_those_of_the_settings(self):
        ports = {one["name"]: one["containerPort"] for one in self.server["ports"]}
        self.assertTrue(self.variables["HEDDLE_SERVER_LISTEN"].endswith(f":{ports['store']}"))
        self.assertTrue(self.variables["HEDDLE_SERVER_METRICS"].endswith(f":{ports['metrics']}"))
        self.assertEqual(ports, {one["name"]: one["port"] for one in self.objects["Service"]["spec"]["ports"]})
        allowed = [one["port"] for rule in self.objects["NetworkPolicy"]["spec"]["ingress"] for one in rule["ports"]]
        self.assertEqual(sorted(allowed), sorted(ports.values()))

    def test_probes(self):
        page = text_of("docs", "metrics.md")
        for probe, path in (("readinessProbe", "/readyz"), ("livenessProbe", "/livez"), ("startupProbe", "/livez")):
            self.assertEqual(self.server[probe]["httpGet"], {"path": path, "port": "metrics"})
            self.assertIn(f"| `{path}`", page)

    def test_a_drain_has_time_and_memory_fits(self):
        self.assertGreaterEqual(self.pod["terminationGracePeriodSeconds"], 600)
        self.assertEqual(self.server["command"][0], "heddle")  # no shell, which would not pass the signal on
        limit = bytes_of(self.variables["HEDDLE_SERVER_MEMORY_LIMIT"])
        resources = self.server["resources"]
        self.assertLess(limit, bytes_of(resources["limits"]["memory"]))
        self.assertEqual(resources["limits"]["memory"], resources["requests"]["memory"])

    def test_keys_come_from_the_secret(self):
        volumes = {one["name"]: one for one in self.pod["volumes"]}
        secret = volumes["secret"]["secret"]["secretName"]
        self.assertIn(f"kubectl create secret generic {secret} ", self.text)
        copy = self.pod["initContainers"][0]
        mounts = {one["name"]: one["mountPath"] for one in copy["volumeMounts"]}
        script = copy["command"][-1].replace(mounts["secret"], "$SECRET").replace(mounts["run"], "$RUN")
        with Keys() as source, tempfile.TemporaryDirectory() as run:
            subprocess.run(["sh", "-c", script], env={**os.environ, "SECRET": source, "RUN": run}, check=True)
            keys = self.variables["HEDDLE_SERVER_KEYS"].replace(mounts["run"], run)
            self.assertEqual(os.stat(keys).st_mode & 0o777, 0o700)
            for name in KEY_FILES:
                self.assertEqual(os.stat(os.path.join(keys, name)).st_mode & 0o777, 0o600)
            self.check_rotation(source, run, keys, mounts)

    def check_rotation(self, source, run, keys, mounts):
        """Changed files of the Secret reach the server; the container that copies them ends on SIGTERM."""
        watch = self.pod["containers"][1]
        self.assertEqual({one["name"]: one["mountPath"] for one in watch["volumeMounts"]}, mounts)
        script = watch["command"][-1].replace(mounts["secret"], source).replace(mounts["run"], run)
        with subprocess.Popen(["sh", "-c", script], env={**os.environ, "KEYS_INTERVAL": "0.05"}, stdout=subprocess.DEVNULL) as copying:
            try:
                with open(os.path.join(source, "comm.allowed"), "w", encoding="utf-8") as file:
                    file.write("another line\n")
                copy, deadline = os.path.join(keys, "comm.allowed"), time.monotonic() + 60
                while text_of(copy) != "another line\n" and time.monotonic() < deadline:
                    time.sleep(0.01)
            finally:
                copying.terminate()
            self.assertIsNotNone(copying.wait(60))
        self.assertEqual(text_of(copy), "another line\n")
        self.assertEqual(os.stat(copy).st_mode & 0o777, 0o600)
        self.assertEqual(sorted(os.listdir(keys)), sorted(KEY_FILES))


@unittest.skipUnless(yaml, "no PyYAML")
class Rules(unittest.TestCase):
    def setUp(self):
        self.page = text_of("docs", "metrics.md")
        self.blocks = [yaml.safe_load(block) for block in blocks(self.page, "yaml")]
        self.rules = [rule for block in self.blocks for group in block.get("groups", []) for rule in group["rules"]]

    def test_rules_have_what_prometheus_asks_for(self):
        self.assertGreaterEqual(len(self.rules), 8)
        for rule in self.rules:
            self.assertTrue(rule["expr"].strip())
            self.assertEqual(rule["expr"].count("("), rule["expr"].count(")"))
            if "alert" in rule:
                self.assertIn("severity", rule["labels"])
                self.assertIn("summary", rule["annotations"])
            else:
                self.assertIn("record", rule)

    def test_metrics_of_rules_exist(self):
        known = names_of_series()
        recorded = {rule["record"] for rule in self.rules if "record" in rule}
        for rule in self.rules:
            for name in metrics_in(rule["expr"]):
                self.assertIn(name, known | recorded)

    def test_the_scrape_job_has_the_name_of_the_alerts(self):
        jobs = {job["job_name"] for block in self.blocks for job in block.get("scrape_configs", [])}
        used = {name for rule in self.rules for name in re.findall(r'\bjob="([^"]+)"', rule["expr"])}
        self.assertEqual(used, jobs)


class Dashboard(unittest.TestCase):
    def setUp(self):
        self.board = json.loads(text_of("tools", "deploy", "grafana.json"))
        self.panels = self.board["panels"]
        self.targets = [target for panel in self.panels for target in panel.get("targets", [])]

    def test_metrics_of_panels_exist(self):
        known = names_of_series()
        used = {name for target in self.targets for name in metrics_in(target["expr"])}
        self.assertGreater(len(used), 25)
        self.assertLessEqual(used, known)
        asked = [one["query"]["query"] for one in self.board["templating"]["list"] if one["type"] == "query"]
        self.assertEqual(len(asked), 2)
        for query in asked:
            self.assertIn(re.fullmatch(r"label_values\((\w+), \w+\)", query)[1], known)

    def test_expressions_are_whole_and_use_variables_that_there_are(self):
        variables = {one["name"] for one in self.board["templating"]["list"]} | {"__rate_interval"}
        labels = {"instance", "job_name", "request"}
        for target in self.targets:
            expression = target["expr"]
            for opening, closing in ("()", "{}", "[]"):
                self.assertEqual(expression.count(opening), expression.count(closing), expression)
            self.assertLessEqual(set(re.findall(r"\$(\w+)", expression)), variables)
            self.assertLessEqual(set(re.findall(r'(\w+)=~?"', expression)), labels)
            self.assertEqual(target["datasource"]["uid"], "$datasource")
            self.assertTrue(target["legendFormat"])

    def test_panels_have_numbers_and_places_of_their_own(self):
        numbers = [panel["id"] for panel in self.panels]
        self.assertEqual(len(set(numbers)), len(numbers))
        taken = set()
        for panel in self.panels:
            place = panel["gridPos"]
            cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
            self.assertFalse(cells & taken, panel["title"])
            self.assertLessEqual(place["x"] + place["w"], 24)
            taken |= cells


class Files(unittest.TestCase):
    def test_settings(self):
        for command in ("server", "scheduler"):
            file = os.path.join(ROOT, "tools", "deploy", f"{command}.toml")
            with Keys() as keys:
                elsewhere = ["--state", os.path.join(keys, "state")] if command == "scheduler" else []
                result = check_config(["--config", file, "--keys", keys, "--listen", "lo:0", *elsewhere], {}, command)
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            origins = [origin for _, origin in table(result.stdout).values()]
            # all settings but the address come from the file
            self.assertGreater(sum(origin.startswith(file + ":") for origin in origins), 7)


class Systemd(unittest.TestCase):
    def setUp(self):
        self.texts = {one: text_of("tools", "deploy", f"heddle-{one}.service") for one in ("server", "scheduler")}

    def test_units(self):
        for command, text in self.texts.items():
            unit = configparser.RawConfigParser(strict=False, allow_no_value=True)
            unit.optionxform = str
            unit.read_string(text)
            service = unit["Service"]
            self.assertEqual(service["Type"], "notify")
            self.assertEqual(service["RestartPreventExitStatus"], "2")
            self.assertEqual(service["ExecStart"], f"/usr/bin/heddle {command} --config /etc/heddle/{command}.toml")
            self.assertIn(f"tools/deploy/{command}.toml", text)
            for name in ("NoNewPrivileges", "ProtectHome", "PrivateTmp", "PrivateDevices"):
                self.assertEqual(service[name], "yes")

    @unittest.skipUnless(shutil.which("systemd-analyze"), "no systemd-analyze")
    def test_systemd_finds_nothing_wrong(self):
        for command, text in self.texts.items():
            with tempfile.TemporaryDirectory() as folder:
                unit = os.path.join(folder, f"heddle-{command}.service")
                with open(unit, "w", encoding="utf-8") as file:
                    file.write(text.replace("/usr/bin/heddle", PROGRAM))
                result = subprocess.run(["systemd-analyze", "verify", "--man=no", "--generators=no", unit],
                                        env={**os.environ, "SYSTEMD_LOG_COLOR": "0"}, capture_output=True, text=True,
                                        check=False)
                complaints = [line for line in result.stderr.splitlines() if f"heddle-{command}" in line]
                self.assertEqual(complaints, [])


if __name__ == "__main__":
    ROOT = sys.argv.pop()
    PROGRAM = sys.argv.pop()
    unittest.main(verbosity=1)
