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
