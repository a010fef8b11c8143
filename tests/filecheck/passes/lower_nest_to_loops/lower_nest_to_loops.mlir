// RUN: gathernest-opt %s -p "nest,erase-sizes,drop-unit-loops,tile-loops{loops=indices sizes=4},parallelize-loops{loops=outer,indices_o},lower-nest-to-loops"

// CHECK: scf.parallel (%o, %i_o) = (%{{.*}}, %{{.*}}) to (%n_outer, %n_indices) step
// CHECK: scf.for %i_i = %i_o to %end step
// CHECK: gather.loops = "indices_i"
// CHECK: gather.loops = "outer,indices_o"
func.func @gather(%data: tensor<2x5x4xf32>, %indices: tensor<6xi64>) -> tensor<2x6x4xf32> {
  %r = gather.gather %data, %indices axis 1 batch_dims 0 bounds clip : tensor<2x5x4xf32>, tensor<6xi64> -> tensor<2x6x4xf32>
  func.return %r : tensor<2x6x4xf32>
}
