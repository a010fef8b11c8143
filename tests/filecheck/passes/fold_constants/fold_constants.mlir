// RUN: gathernest-opt %s -p fold-constants

// CHECK-LABEL: func.func @sizes
// CHECK: %[[SIZE:.*]] = arith.constant 7 : index
// CHECK: %[[WIDE:.*]] = arith.constant 7 : i64
// CHECK: %[[DYNAMIC:.*]] = memref.dim
// CHECK: %[[LEAST:.*]] = arith.constant 7 : index
func.func @sizes(%data: memref<7x?xi32>) -> (index, i64, index, index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c9 = arith.constant 9 : index
  %size = memref.dim %data, %c0 : memref<7x?xi32>
  %wide = arith.index_cast %size : index to i64
  %dynamic = memref.dim %data, %c1 : memref<7x?xi32>
  %least = arith.minsi %size, %c9 : index
  func.return %size, %wide, %dynamic, %least : index, i64, index, index
}

// CHECK-LABEL: func.func @arithmetic
// CHECK-SAME: %x: index
// CHECK: %[[TWICE:.*]] = arith.addi %x, %x : index
// CHECK: %[[SUM:.*]] = arith.constant 16 : index
// CHECK: %[[WIDE:.*]] = arith.addi %{{.*}}, %{{.*}} : i64
// CHECK: %[[NARROW:.*]] = arith.index_cast %{{.*}} : index to i8
// CHECK: func.return %x, %[[TWICE]], %[[SUM]], %[[WIDE]], %[[NARROW]]
func.func @arithmetic(%x: index) -> (index, index, index, i64, i8) {
  %c7 = arith.constant 7 : index
  %c9 = arith.constant 9 : index
  %c300 = arith.constant 300 : index
  %one = arith.constant 1 : i64
  %same = arith.minsi %x, %x : index
  %twice = arith.addi %x, %x : index
  %sum = arith.addi %c7, %c9 : index
  %wide = arith.addi %one, %one : i64
  %narrow = arith.index_cast %c300 : index to i8
  func.return %same, %twice, %sum, %wide, %narrow : index, index, index, i64, i8
}
