// SPDX-License-Identifier: Apache-2.0
// A test per operation; the number is how many faults it has at least.
#include "fault_loop.h"

SLIP_TEST_TIMEOUT(fault_open, 800) {
  fault_try("open", 100);
}
SLIP_TEST_TIMEOUT(fault_prepare, 800) {
  fault_try("prepare", 60);
}
SLIP_TEST_TIMEOUT(fault_release, 800) {
  fault_try("release", 10);
}
SLIP_TEST_TIMEOUT(fault_drain, 800) {
  fault_try("drain", 2);
}
SLIP_TEST_TIMEOUT(fault_close, 800) {
  fault_try("close", 40);
}
SLIP_TEST_TIMEOUT(fault_destroy, 800) {
  fault_try("destroy", 0);
}
SLIP_TEST_TIMEOUT(fault_launch_inline, 800) {
  fault_try("launch_inline", 0);
}
SLIP_TEST_TIMEOUT(fault_launch, 800) {
  fault_try("launch", 40);
}
SLIP_TEST_TIMEOUT(fault_wait, 800) {
  fault_try("wait", 10);
}
SLIP_TEST_TIMEOUT(fault_captured, 800) {
  fault_try("captured", 20);
}
SLIP_TEST_TIMEOUT(fault_replay, 800) {
  fault_try("replay", 10);
}
SLIP_TEST_TIMEOUT(fault_end_of_graph, 800) {
  fault_try("end_of_graph", 4);
}
SLIP_TEST_TIMEOUT(fault_graph_create, 800) {
  fault_try("graph_create", 4);
}
SLIP_TEST_TIMEOUT(fault_graph_add, 800) {
  fault_try("graph_add", 4);
}
SLIP_TEST_TIMEOUT(fault_graph_bind, 800) {
  fault_try("graph_bind", 4);
}
SLIP_TEST_TIMEOUT(fault_graph_inline, 800) {
  fault_try("graph_inline", 0);
}
SLIP_TEST_TIMEOUT(fault_graph_launch, 800) {
  fault_try("graph_launch", 40);
}
SLIP_TEST_TIMEOUT(fault_graph_captured, 800) {
  fault_try("graph_captured", 40);
}
SLIP_TEST_TIMEOUT(fault_graph_destroy, 800) {
  fault_try("graph_destroy", 10);
}
