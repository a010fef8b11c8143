// RUN: gathernest-opt %s -p "nest,drop-unit-loops,tile-loops{loops=indices sizes=8},hoist-indices{before=indices_i}"

// An axis of 2**31 or more needs positions of 64 bits.
// CHECK: memref.alloca() : memref<8xi64>
// CHECK-NOT: arith.trunci
// CHECK: memref.store %{{.*}}, %positions[%{{.*}}] : memref<8xi64>
// CHECK: %kept = memref.load %positions[%{{.*}}] : memref<8xi64>
// CHECK-NOT: arith.extsi %kept
func.func @gather(%data: tensor<2147483648xi8>, %indices: tensor<70xi64>) -> tensor<70xi8> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds clip : tensor<2147483648xi8>, tensor<70xi64> -> tensor<70xi8>
  func.return %r : tensor<70xi8>
}
