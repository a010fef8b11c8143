// RUN: gathernest-opt %s -p "nest,erase-sizes,drop-unit-loops,tile-loops{loops=indices sizes=8},hoist-indices{before=indices_i}"

// Each component of a tuple has a buffer; the first one says whether the tuple is inside.
// CHECK: %positions = memref.alloca() : memref<8xi32>
// CHECK: %positions_1 = memref.alloca() : memref<8xi32>
// CHECK: gather.loop resolve_indices_i
// CHECK: memref.store %{{.*}}, %positions[
// CHECK: memref.store %{{.*}}, %positions_1[
// CHECK: gather.loop indices_i
// CHECK: %kept = memref.load %positions[
// CHECK: arith.cmpi sge
// CHECK: %kept_1 = memref.load %positions_1[
// CHECK-NOT: arith.cmpi
func.func @gather(%data: tensor<9x5x4xf32>, %indices: tensor<70x2xi64>) -> tensor<70x4xf32> {
  %r = gather.gather_nd %data, %indices batch_dims 0 bounds zero : tensor<9x5x4xf32>, tensor<70x2xi64> -> tensor<70x4xf32>
  func.return %r : tensor<70x4xf32>
}
