// RUN: gathernest-opt %s -p "nest,erase-sizes,drop-unit-loops,owner-computes{owners=2},fuse-into-owners,tile-loops{loops=indices sizes=16},parallelize-loops{loops=owners},compact-indices{loop=indices_i},stage-result"

// CHECK: gather.loop check_indices
// CHECK-NOT: memref.alloc(
// CHECK: gather.accumulate %{{.*}}, %out[
func.func @gather(%grad: tensor<70xf32>, %indices: tensor<70xi64>) -> tensor<9xf32> {
  %r = gather.gather_grad %grad, %indices axis 0 batch_dims 0 bounds error scale 2.0 : tensor<70xf32>, tensor<70xi64> -> tensor<9xf32>
  func.return %r : tensor<9xf32>
}
