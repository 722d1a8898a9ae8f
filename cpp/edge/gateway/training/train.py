#!/usr/bin/python3
"""Trains a linear support vector machine for each sensor, and writes the weights that corank-gateway reads.

    corank-sensor --dataset --sensors 50 --features 256 --count 150 --seed 7 | training/train.py > weights.json

Reads lines SENSOR,CONDITION,BIN,... where CONDITION is `sound` or anything else. Says on standard error how many of a held-out fifth each
sensor's machine judges rightly, in floating point and in the gateway's fixed point. Needs Debian's python3-sklearn (BSD).
"""

import json
import sys

import numpy
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

# The gateway's limits: see `most_weight` in source/table.hpp, and 16 bits a weight.
MOST_WEIGHT = 65535
LARGEST = 32767


def read(lines):
    """The bins and labels of each sensor: 1 is damaged."""
    sensors = {}
    for line in lines:
        sensor, condition, *bins = line.strip().split(",")
        rows, labels = sensors.setdefault(int(sensor), ([], []))
        rows.append([int(each) for each in bins])
        labels.append(int(condition != "sound"))
    return {sensor: (numpy.array(rows), numpy.array(labels)) for sensor, (rows, labels) in sensors.items()}


def train(rows, labels):
    """Weights and threshold in fixed point, and how many of the held-out rows are judged rightly before and after the rounding."""
    learn, held_out, learn_labels, held_out_labels = train_test_split(rows, labels, test_size=0.2, random_state=1, stratify=labels)
    scaler = StandardScaler().fit(learn)
    machine = LinearSVC(C=0.01, dual=False).fit(scaler.transform(learn), learn_labels)
    # Scaling is a part of the plane: w . (x - mean) / deviation + b > 0 becomes w' . x > threshold.
    weights = machine.coef_[0] / scaler.scale_
    threshold = weights @ scaler.mean_ - machine.intercept_[0]
    # Which side of the plane a row is on doesn't change with the scale; the largest one that fits loses least.
    scale = min(LARGEST / numpy.abs(weights).max(), (MOST_WEIGHT - len(weights)) / numpy.abs(weights).sum())
    fixed = numpy.rint(weights * scale).astype(int)
    fixed_threshold = int(numpy.rint(threshold * scale))
    before = numpy.mean(machine.predict(scaler.transform(held_out)) == held_out_labels)
    after = numpy.mean((held_out @ fixed > fixed_threshold) == held_out_labels)
    return fixed, fixed_threshold, before, after


def main():
    machines, accuracies = [], []
    for sensor, (rows, labels) in sorted(read(sys.stdin).items()):
        weights, threshold, before, after = train(rows, labels)
        accuracies.append((before, after))
        machines.append({"sensor": sensor, "threshold": threshold, "weights": weights.tolist()})
    before, after = numpy.mean(accuracies, axis=0)
    worst = min(after for _, after in accuracies)
    print(f"{len(machines)} sensors; of what was held out {before:.4f} are right, in fixed point {after:.4f}, at the worst sensor {worst:.4f}", file=sys.stderr)
    # A line for each sensor, so that a difference between two files can be read.
    lines = ",\n".join(json.dumps(each, separators=(",", ":")) for each in machines)
    print(f'{{"format":1,"sensors":[\n{lines}\n]}}')


if __name__ == "__main__":
    main()
